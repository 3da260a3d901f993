"""What files for TensorBoard in a directory show."""

from pathlib import Path


def scalars(directory: Path) -> dict[str, list[tuple[int, float]]]:
    """The steps and values of every curve, by its name, as TensorBoard shows them."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    accumulator = EventAccumulator(str(directory), size_guidance={"tensors": 0})
    accumulator.Reload()
    return {
        name: [(event.step, event.value) for event in accumulator.Scalars(name)]
        for name in accumulator.Tags()["scalars"]
    }
