"""Datasets of d3rlpy 2: episodes, buffers, transitions and minibatches. The reward of an action is in its row."""

from pfrl_like.d3rlpy.dataset.buffers import BufferProtocol, FIFOBuffer, InfiniteBuffer
from pfrl_like.d3rlpy.dataset.compat import MDPDataset
from pfrl_like.d3rlpy.dataset.components import (
    DatasetInfo,
    Episode,
    EpisodeBase,
    PartialTrajectory,
    Signature,
    Transition,
)
from pfrl_like.d3rlpy.dataset.episode_generator import EpisodeEndError, EpisodeGenerator, EpisodeGeneratorProtocol
from pfrl_like.d3rlpy.dataset.io import DATASET_VERSION, dump, load, load_v1
from pfrl_like.d3rlpy.dataset.library import batch_of, from_library_dataset, sample_batch
from pfrl_like.d3rlpy.dataset.mini_batch import TrajectoryMiniBatch, TransitionMiniBatch
from pfrl_like.d3rlpy.dataset.nested import batch_pad_array, batch_pad_observations, create_zero_observation
from pfrl_like.d3rlpy.dataset.replay_buffer import (
    MixedReplayBuffer,
    ReplayBuffer,
    ReplayBufferBase,
    create_fifo_replay_buffer,
    create_infinite_replay_buffer,
)
from pfrl_like.d3rlpy.dataset.trajectory_slicers import (
    BasicTrajectorySlicer,
    FrameStackTrajectorySlicer,
    TrajectorySlicerProtocol,
)
from pfrl_like.d3rlpy.dataset.transition_pickers import (
    BasicTransitionPicker,
    FrameStackTransitionPicker,
    MultiStepTransitionPicker,
    SparseRewardTransitionPicker,
    TransitionPickerProtocol,
)
from pfrl_like.d3rlpy.dataset.writers import (
    BasicWriterPreprocess,
    ExperienceWriter,
    LastFrameWriterPreprocess,
    WriterPreprocessProtocol,
)

__all__ = [
    "BasicTrajectorySlicer", "BasicTransitionPicker", "BasicWriterPreprocess", "BufferProtocol", "DATASET_VERSION",
    "DatasetInfo", "Episode", "EpisodeBase", "EpisodeEndError", "EpisodeGenerator", "EpisodeGeneratorProtocol",
    "ExperienceWriter", "FIFOBuffer", "FrameStackTrajectorySlicer", "FrameStackTransitionPicker", "InfiniteBuffer",
    "LastFrameWriterPreprocess", "MDPDataset", "MixedReplayBuffer", "MultiStepTransitionPicker", "PartialTrajectory",
    "ReplayBuffer", "ReplayBufferBase", "Signature", "SparseRewardTransitionPicker", "TrajectoryMiniBatch",
    "TrajectorySlicerProtocol", "Transition", "TransitionMiniBatch", "TransitionPickerProtocol",
    "WriterPreprocessProtocol", "batch_of", "batch_pad_array", "batch_pad_observations", "create_fifo_replay_buffer",
    "create_infinite_replay_buffer", "create_zero_observation", "dump", "from_library_dataset", "load", "load_v1",
    "sample_batch",
]  # fmt: skip
