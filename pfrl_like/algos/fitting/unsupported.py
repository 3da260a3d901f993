"""Mixins for estimators that lack values of actions, or that do not learn from recorded data."""

from typing import Any, ClassVar, NoReturn


class NoValues:
    """Mixin for estimators with a policy and without values."""

    def predict_value(self, x: Any, action: Any, with_std: bool = False) -> NoReturn:
        """Raise an error, because the algorithm has no values of actions.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError(f"{type(self).__name__} has no values of actions")

    def sample_action(self, x: Any, *, action_mask: Any = None) -> Any:
        """Raise an error, because the policy is deterministic. Call `predict` instead.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError(f"{type(self).__name__} does not sample actions: use predict")


class NoFit:
    """Mixin for estimators that do not learn from recorded data."""

    #: Why `fit` raises an error, and what to call instead.
    fit_advice: ClassVar[str] = "does not learn: use predict"
    builders: ClassVar[str] = "build_with_dataset, build_with_env, create_impl or load_model"

    def fit(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raise an error, because the algorithm does not learn from recorded data.

        Raises:
            NotImplementedError: Always. The message contains the alternative.
        """
        raise NotImplementedError(f"{type(self).__name__} {self.fit_advice}")

    def fitter(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raise the error of `fit`.

        Raises:
            NotImplementedError: Always.
        """
        self.fit()

    def update(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raise the error of `fit`.

        Raises:
            NotImplementedError: Always.
        """
        self.fit()
