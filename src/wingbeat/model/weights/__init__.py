"""Reading and writing targets and draft heads: Hugging Face directories, GGUF files, EAGLE-3 head formats."""

from wingbeat.model.weights.locate import locate_model
from wingbeat.model.weights.target_files import load_target, read_target_config

__all__ = ["load_target", "locate_model", "read_target_config"]
