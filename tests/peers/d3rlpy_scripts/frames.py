"""Images: stacked frames, pixels scaled, augmentation that is put together step by step."""

import numpy as np
from d3rlpy.algos import DQN, DiscreteBC
from d3rlpy.augmentation import AugmentationPipeline, Intensity, RandomShift
from d3rlpy.dataset import MDPDataset

steps, rng = 40, np.random.RandomState(0)
images = rng.randint(0, 256, size=(steps, 1, 36, 36)).astype(np.uint8)
terminals = np.arange(steps) % 10 == 9
dataset = MDPDataset(images, rng.randint(3, size=steps), rng.random_sample(steps), terminals, discrete_action=True)
assert dataset.get_observation_shape() == (1, 36, 36)

augmentation = AugmentationPipeline([RandomShift(shift_size=2)])
augmentation.append(Intensity(scale=0.1))
quiet = dict(n_epochs=1, save_metrics=False, verbose=False, show_progress=False)
dqn = DQN(n_frames=4, batch_size=8, scaler="pixel", augmentation=augmentation)
dqn.fit(dataset.episodes[:2], **quiet)
assert dqn.predict(np.zeros((2, 4, 36, 36), np.uint8)).shape == (2,)

bc = DiscreteBC(n_frames=4, batch_size=8, scaler="pixel", use_batch_norm=True)
bc.fit(dataset.episodes[:2], **quiet)
assert bc.impl.policy is not None and bc.impl.observation_shape == (1, 36, 36)
