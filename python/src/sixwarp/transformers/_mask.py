"""The masks that models get from sixwarp's mask function."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any, Callable, Dict, Optional, Tuple, Union

import torch
from torch import Tensor
from torch.utils._pytree import tree_map
from transformers.masking_utils import causal_mask_function, eager_mask, sdpa_mask
from transformers.utils.import_utils import is_tracing

from ._pattern import recognise
from ._visible import Visible, visible


class Mask(Tensor):
    """eager's additive mask, `[batch, 1, queries, keys]`, that is not made unless a model computes with it.

    Attention layers of most models hand it on unread, and sixwarp takes `visible` from it. What computes with
    it or writes to it gets the mask of every element.
    """

    visible: Optional[Visible]
    _dense: Optional[Tensor]

    @staticmethod
    def known(seen: Visible, shape: Tuple[int, ...], dtype: torch.dtype, device: Any) -> "Mask":
        stand_in = torch.empty((), dtype=dtype, device=device).expand(shape)
        mask = Tensor._make_subclass(Mask, stand_in)
        mask.visible, mask._dense, mask._make = seen, None, seen.dense
        return mask

    def dense(self) -> Tensor:
        """The mask of every element, made once."""
        if self._dense is None:
            self._dense = self._make()
        return self._dense

    @classmethod
    def __torch_function__(cls, function: Callable, types: Any, arguments: Any = (), named: Any = None) -> Any:
        named = named or {}
        if function in _DESCRIBES:
            with torch._C.DisableTorchFunctionSubclass():
                return function(*arguments, **named)
        if function in _MAY_RETURN_ITSELF and _changes_nothing(function, *arguments, **named):
            return arguments[0]
        _forget(named.get("out"))
        if _writes(function):
            _forget(arguments[0])
        return function(*tree_map(_as_dense, arguments), **tree_map(_as_dense, named))


_DESCRIBES = frozenset(
    [getattr(Tensor, name).__get__ for name in ("shape", "dtype", "device", "ndim", "is_cuda", "layout", "requires_grad")]
    + [Tensor.size, Tensor.stride, Tensor.dim, Tensor.ndimension, Tensor.numel, Tensor.is_floating_point, Tensor.__len__]
)
_MAY_RETURN_ITSELF = frozenset((Tensor.to, Tensor.contiguous, Tensor.detach))


def _changes_nothing(function: Callable, mask: Any, *arguments: Any, **named: Any) -> bool:
    """Whether a conversion leaves type and device as they are: tried on an empty tensor."""
    if not isinstance(mask, Mask) or named.get("copy"):
        return False
    before = torch.empty(0, dtype=mask.dtype, device=mask.device)
    after = function(before, *arguments, **named)
    return after.dtype == before.dtype and after.device == before.device


def _as_dense(x: Any) -> Any:
    return x.dense() if isinstance(x, Mask) else x


def _writes(function: Callable) -> bool:
    name = getattr(function, "__name__", "")
    return name == "__setitem__" or (name.endswith("_") and not name.endswith("__")) or name.startswith("__i")


def _forget(written: Any) -> None:
    """A mask that is written to is no longer what its pattern says."""
    if isinstance(written, Mask):
        written.visible = None


def mask(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: Union[int, Tensor] = 0,
    kv_offset: int = 0,
    mask_function: Callable = causal_mask_function,
    attention_mask: Optional[Tensor] = None,
    local_size: Optional[int] = None,
    allow_is_causal_skip: bool = True,
    allow_is_bidirectional_skip: bool = False,
    dtype: torch.dtype = torch.float32,
    config: Any = None,
    use_vmap: bool = False,
    device: Union[torch.device, str] = "cpu",
) -> Optional[Tensor]:
    """What transformers calls for the mask of a kind of layers."""
    _refuse_models_that_do_not_ask(config)
    given: Dict[str, Any] = dict(
        batch_size=batch_size, q_length=q_length, kv_length=kv_length, q_offset=q_offset, kv_offset=kv_offset,
        mask_function=mask_function, attention_mask=attention_mask, use_vmap=use_vmap, device=device,
    )  # fmt: skip
    dense = partial(eager_mask, dtype=dtype, **given)
    if is_tracing(attention_mask):
        skips = dict(allow_is_causal_skip=allow_is_causal_skip, allow_is_bidirectional_skip=allow_is_bidirectional_skip)
        plain = q_length == kv_length and sdpa_mask(local_size=local_size, **skips, **given) is None
        return None if plain else dense()
    if q_length == 1 and isinstance(q_offset, Tensor) and q_offset.device.type != "cpu":
        # A step with a static cache may be compiled or captured: the mask's form must not depend on lengths.
        return dense()
    seen = visible(
        recognise(mask_function), q_length, kv_length, int(q_offset) - kv_offset + q_length,
        _padding(attention_mask, kv_length, kv_offset), dense,
    )  # fmt: skip
    return dense() if seen is None else Mask.known(seen, (batch_size, 1, q_length, kv_length), dtype, device)


def _padding(attention_mask: Optional[Tensor], kv_length: int, kv_offset: int) -> Optional[Tensor]:
    """True for the keys that count; keys behind the mask's end do not."""
    if attention_mask is None:
        return None
    padding = attention_mask[:, kv_offset : kv_offset + kv_length].bool()
    return torch.nn.functional.pad(padding, (0, kv_length - padding.shape[1]))


def _refuse_models_that_do_not_ask(config: Any) -> None:
    """Some models take a mask of this implementation, and then compute attention themselves."""
    if config is not None and _asks_nobody(type(config)):
        raise NotImplementedError(
            f"models of type '{config.model_type}' compute attention themselves and ask no implementation: "
            'load them with attn_implementation="eager"'
        )


# By class of configuration. A plain dictionary, which torch.compile can read.
_known: Dict[type, bool] = {}


def _asks_nobody(config: type) -> bool:
    """Whether the model's module has attention layers, and none that looks an implementation up."""
    if config not in _known:
        module = sys.modules.get(config.__module__.replace("configuration_", "modeling_"))
        _known[config] = module is not None and not hasattr(module, "ALL_ATTENTION_FUNCTIONS") and _attends(module)
    return _known[config]


def _attends(module: Any) -> bool:
    own = (x for x in vars(module).values() if isinstance(x, type) and x.__module__ == module.__name__)
    return any("Attention" in x.__name__ and issubclass(x, torch.nn.Module) for x in own)
