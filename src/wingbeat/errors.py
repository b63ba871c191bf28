"""Every exception that wingbeat raises on purpose.

    WingbeatError
    ├── UsageError              an argument, option or setting that cannot be used
    │   └── PromptError         a prompt that cannot be run (empty, token id out of range)
    ├── CapacityError           a request that would not fit; refused before it starts
    ├── CheckpointError         a model, head or shard on disk that cannot be trusted
    │   ├── NotFoundError       nothing usable at the path or name given
    │   ├── CorruptError        the file is damaged or cut short
    │   ├── MismatchError       tensors or configuration do not fit together, or not this target
    │   ├── NonFiniteError      NaN or infinity among the weights
    │   └── UnsupportedError    a real format or family, but not one that is implemented
    ├── ProbeError              another machine or device that cannot be asked
    ├── StorageError            writing failed (disk full, no permission); the old file is untouched
    └── InterruptedRunError     stopped on request; what was finished is saved

A message says what is wrong and what to do about it.
"""


class WingbeatError(Exception):
    """Base of all deliberate errors; the command line prints its message and no traceback."""


class UsageError(WingbeatError):
    """An argument, option or setting that cannot be used."""


class PromptError(UsageError):
    """A prompt that cannot be run."""


class CapacityError(WingbeatError):
    """A request that would not fit into the cache or the context."""


class CheckpointError(WingbeatError):
    """A model, head or shard on disk that cannot be trusted."""


class NotFoundError(CheckpointError):
    """Nothing usable at the path or name given."""


class CorruptError(CheckpointError):
    """A file that is damaged or cut short."""


class MismatchError(CheckpointError):
    """Tensors or configuration that do not fit together, or not this target."""


class NonFiniteError(CheckpointError):
    """NaN or infinity among the weights."""


class UnsupportedError(CheckpointError):
    """A real format or family, but not one that is implemented."""


class ProbeError(WingbeatError):
    """Another machine or device that cannot be asked, or would be disturbed."""


class StorageError(WingbeatError):
    """Writing failed; the old file is untouched."""


class InterruptedRunError(WingbeatError):
    """Stopped on request; what was finished is saved."""
