"""Reading and writing targets and draft heads: Hugging Face directories, GGUF files, EAGLE-3 head formats."""

from wingbeat.model.weights.facts import describe
from wingbeat.model.weights.head_config import read_head_config
from wingbeat.model.weights.head_files import load_head
from wingbeat.model.weights.head_saving import save_head
from wingbeat.model.weights.locate import locate_model
from wingbeat.model.weights.target_files import load_target, read_target_config

__all__ = [
    "describe", "load_head", "load_target", "locate_model", "read_head_config", "read_target_config", "save_head",
]
