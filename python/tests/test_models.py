"""Many kinds of models, each run in every way that people do: what eager says, or a refusal.

A way that eager itself cannot go is not tested.
"""

import functools

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import sixwarp.torch
import sixwarp.transformers
from sixwarp.transformers import _forward, _packing, _visible
import zoo

TOKENS = torch.randint(2, zoo.VOCABULARY, (2, 13), generator=torch.Generator().manual_seed(1))
LEFT, RIGHT = torch.ones_like(TOKENS), torch.ones_like(TOKENS)
LEFT[0, :5], RIGHT[0, -5:] = 0, 0

# Models of which transformers, asked for this implementation, computes or refuses by itself.
ELSEWHERE = {"bloom": "compute attention themselves", "falcon": "sixwarp"}
# Encoders do not generate, encoder-decoders are not packed, and DeepSeek-V4's cache is never static.
NOT_EAGER = {
    "bert": {"chunks", "dynamic", "dynamic_padded", "static", "static_padded"},
    "t5": {"chunks", "packed"},
    "deepseek_v4": {"static", "static_padded"},
}


def outputs(model, tokens=TOKENS, **named):
    """What comes out for every token; encoder-decoders read `tokens` and are given others to decode."""
    if model.config.is_encoder_decoder:
        named["decoder_input_ids"] = TOKENS[:, :7]
    result = model(tokens, **named)
    return result.logits if "logits" in result else result.last_hidden_state


def padded(mask, model):
    out = outputs(model, attention_mask=mask)
    return out if model.config.is_encoder_decoder else out[mask.bool()]


def chunks(model):
    """A prompt in three pieces: queries on a longer run of keys."""
    cache, logits = None, []
    for piece in TOKENS.split([6, 6, 1], 1):
        result = model(piece, past_key_values=cache, use_cache=True)
        cache = result.past_key_values
        logits.append(result.logits)
    return torch.cat(logits, 1)


def generate(mask, cache, model):
    options = dict(max_new_tokens=5, min_new_tokens=5, do_sample=False, pad_token_id=0)
    return model.generate(TOKENS, attention_mask=mask, cache_implementation=cache, **options)


def packed(model):
    positions = torch.tensor([[0, 1, 2, 3, 4, *range(8)], [*range(10), 0, 0, 1]])
    return outputs(model, position_ids=positions, use_cache=False)


WAYS = {
    "prefill": outputs,
    "left": functools.partial(padded, LEFT),
    "right": functools.partial(padded, RIGHT),
    "chunks": chunks,
    "dynamic": functools.partial(generate, torch.ones_like(TOKENS), None),
    "dynamic_padded": functools.partial(generate, LEFT, None),
    "static": functools.partial(generate, torch.ones_like(TOKENS), "static"),
    "static_padded": functools.partial(generate, LEFT, "static"),
    "packed": packed,
}


@pytest.fixture(autouse=True)
def registered():
    sixwarp.transformers.register()


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Layers this small are slower on several."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@functools.lru_cache(None)
def made(name, implementation):
    return zoo.make(name, implementation)


@pytest.fixture
def calls(monkeypatch):
    """Counts calls of sixwarp's attention."""
    counted = []

    def counting(*arguments, **named):
        counted.append(arguments)
        return attend(*arguments, **named)

    attend = sixwarp.torch.attention
    for module in (_forward, _packing, _visible):
        monkeypatch.setattr(module, "attention", counting)
    return counted


def close(got, want):
    assert got.shape == want.shape
    if want.dtype == torch.long:
        assert torch.equal(got, want)
    else:
        torch.testing.assert_close(got, want, atol=2e-4, rtol=2e-4)


MODELS = [name for name in zoo.MODELS if name not in ELSEWHERE]


@pytest.mark.parametrize(
    "name, way", [(name, way) for name in MODELS for way in WAYS if way not in NOT_EAGER.get(name, ())]
)
def test_a_model_says_what_eager_says(name, way, calls):
    with torch.no_grad():
        want = WAYS[way](made(name, "eager"))
        assert not calls
        close(WAYS[way](made(name, "sixwarp")), want)
    assert len(calls) >= made(name, "sixwarp").config.num_hidden_layers


# DeepSeek-V4 with its own window, ratios and head dim; the indexer chooses among more rows than it may take.
_SERVED = dict(
    head_dim=512, qk_rope_head_dim=64, sliding_window=128, max_position_embeddings=512, index_topk=16, index_head_dim=128,
    compress_rates={"compressed_sparse_attention": 4, "heavily_compressed_attention": 128},
)  # fmt: skip


def test_deepseek_v4_as_it_is_served_says_eagers_tokens(calls):
    tokens = torch.randint(2, zoo.VOCABULARY, (1, 270), generator=torch.Generator().manual_seed(2))
    models = [zoo.make("deepseek_v4", name, **_SERVED) for name in ("eager", "sixwarp")]
    with torch.no_grad():
        want, got = (model.generate(tokens, max_new_tokens=6, min_new_tokens=6, do_sample=False) for model in models)
        assert torch.equal(got, want)
        close(models[1](tokens).logits, models[0](tokens).logits)
    # Six steps and one prefill more, of three layers each.
    assert len(calls) == 7 * 3


@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_model_that_asks_no_implementation_is_refused(name, calls):
    with pytest.raises((NotImplementedError, KeyError), match=ELSEWHERE[name]), torch.no_grad():
        outputs(made(name, "sixwarp"))


def gradients(model):
    """Of every parameter, that of a weighted sum of the outputs."""
    model.zero_grad()
    out = outputs(model, attention_mask=LEFT)
    out = out if model.config.is_encoder_decoder else out[LEFT.bool()]
    (out * torch.linspace(-1, 1, out.numel()).view_as(out)).mean().backward()
    return {name: parameter.grad for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("name", MODELS)
def test_training_is_refused_or_eagers(name, calls):
    with pytest.raises(NotImplementedError, match="forward pass only, and gradients are asked for"):
        gradients(made(name, "sixwarp"))
    sixwarp.transformers.register(gradients="eager")
    got, want = gradients(made(name, "sixwarp")), gradients(made(name, "eager"))
    assert not calls
    for parameter in want:
        assert (got[parameter] is None) == (want[parameter] is None), parameter
        if want[parameter] is not None:
            torch.testing.assert_close(got[parameter], want[parameter], atol=1e-5, rtol=1e-3)


@pytest.mark.parametrize("name", MODELS)
def test_attention_weights_are_refused(name, calls):
    with torch.no_grad(), pytest.raises(NotImplementedError, match="output_attentions"):
        outputs(made(name, "sixwarp"), output_attentions=True)
    assert not calls
