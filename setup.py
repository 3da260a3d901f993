"""Package metadata; the settings of the tools are in pyproject.toml."""

import re
from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).parent


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def read_version() -> str:
    found = re.search(r'^__version__ = "([^"]+)"', read("pfrl_like/__init__.py"), re.MULTILINE)
    if found is None:
        raise RuntimeError("pfrl_like/__init__.py has no __version__")
    return found[1]


EXTRAS = {
    "classic": ["pygame-ce>=2.5"],  # rendering of the classic-control environments; they step without it
    "box2d": ["box2d>=2.3.10", "pygame-ce>=2.5"],  # LunarLander, BipedalWalker, CarRacing
    "atari": ["ale-py>=0.12", "opencv-python-headless>=4.9"],  # games included; OpenCV is for speed
    "minatar": ["minatar>=1.0.15"],  # with pandas, seaborn, scipy and matplotlib: 240 MB
    "mujoco": ["mujoco>=3.1,<4", "imageio>=2.31", "packaging"],  # the last two are gymnasium's, for these environments
    "pybullet": ["pybullet-envs-gymnasium>=0.5"],  # with pybullet: 100 MB
    "tensorboard": ["tensorboard>=2.18"],
    # datasets as HDF5 files, Minari's and d3rlpy's among them (.npz needs nothing); searches over estimators
    "offline": ["h5py>=3.8", "scikit-learn>=1.6"],
    "export": ["onnx>=1.17", "onnxscript>=0.4", "onnxruntime>=1.20"],  # policies as ONNX; TorchScript needs nothing
    "distributed": ["ray>=2.50"],  # actors on a cluster or on one machine; with 15 packages, 250 to 330 MB
    "hub": ["fsspec>=2024.2"],  # run directories at URLs; each kind of storage has a package, such as s3fs or gcsfs
    "search": ["optuna>=4"],  # pruning of unpromising runs at their evaluations
    "video": ["imageio>=2.31", "imageio-ffmpeg>=0.5"],  # mp4 of episodes; without it they become GIFs
    "test": ["pytest>=8", "pytest-xdist>=3.6", "pytest-timeout>=2.3", "hypothesis>=6.100"],
}
HEAVY = {
    "minatar",
    "pybullet",
}  # not for developers: its tests run where it is installed, and are skipped by name elsewhere
EXTRAS["dev"] = [
    *(package for extra, packages in EXTRAS.items() if extra not in HEAVY for package in packages),
    "pandas>=2",  # tables of datasets; users bring their own
    "ruff",
    "mypy>=1.15",
    "build",
]

setup(
    name="pfrl_like",
    version=read_version(),
    description="Deep reinforcement learning composed from parts: PFRL's interface on today's gymnasium and PyTorch",
    long_description=read("README.md"),
    long_description_content_type="text/markdown",
    license="MIT",
    license_files=["LICENSE"],
    packages=find_packages(include=["pfrl_like*"]),
    package_data={"pfrl_like": ["py.typed", "datasets/data/*", "*/*.toml", "*/*/*.toml"]},
    python_requires=">=3.11",
    install_requires=[line for line in read("requirements.txt").splitlines() if line and not line.startswith("#")],
    extras_require=EXTRAS,
    entry_points={"console_scripts": ["pfrl-like = pfrl_like.cli:main"]},
    classifiers=[
        "Intended Audience :: Science/Research",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Typing :: Typed",
    ],
)
