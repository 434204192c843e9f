"""A small randomly initialised model says the same with every attention implementation; what is refused is named.

`test_models.py` runs many kinds of models.
"""

import types

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import sixwarp.transformers
import zoo
from sixwarp.transformers._forward import attention_forward
from sixwarp.transformers._mask import Mask, mask
from transformers import masking_utils

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def model(implementation, **options):
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=97, hidden_size=256, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=64, max_position_embeddings=256,
        attn_implementation=implementation, **options,
    )  # fmt: skip
    made = transformers.LlamaForCausalLM(config).eval().to(DEVICE)
    return made.bfloat16() if DEVICE == "cuda" else made


@pytest.fixture(scope="module")
def models():
    sixwarp.transformers.register()
    return model("eager"), model("sixwarp")


@pytest.mark.skipif(DEVICE == "cuda", reason="in bfloat16 the best two logits may be a rounding apart")
def test_greedy_tokens_are_eagers(models):
    prompt = torch.randint(0, 97, (2, 17), generator=torch.Generator().manual_seed(1)).to(DEVICE)
    options = dict(max_new_tokens=20, do_sample=False, pad_token_id=0)
    eager, ours = (made.generate(prompt, **options) for made in models)
    assert torch.equal(eager, ours)


def test_padded_batches_are_eagers(models):
    prompt = torch.randint(1, 97, (3, 11), generator=torch.Generator().manual_seed(2)).to(DEVICE)
    mask = torch.ones_like(prompt)
    mask[0, :4] = 0
    mask[2, :9] = 0
    with torch.no_grad():
        eager, ours = (made(prompt, attention_mask=mask).logits[mask.bool()] for made in models)
    tolerance = 1e-4 if DEVICE == "cpu" else 5e-2
    torch.testing.assert_close(ours, eager, atol=tolerance, rtol=tolerance)


def test_every_step_of_generation_is_eagers(models):
    """eager's tokens, fed to both with a cache: the same next token wherever eager's best is clear."""
    prompt = torch.randint(1, 97, (2, 17), generator=torch.Generator().manual_seed(1)).to(DEVICE)
    tokens = models[0].generate(prompt, max_new_tokens=20, do_sample=False, pad_token_id=0)
    eager, ours = (steps(made, tokens) for made in models)
    error = (eager - ours).abs().max()
    assert error < (1e-4 if DEVICE == "cpu" else 5e-2)
    best = eager.topk(2).values
    clear = best[..., 0] - best[..., 1] > 2 * error
    assert clear.float().mean() > 0.5
    assert torch.equal(eager.argmax(-1)[clear], ours.argmax(-1)[clear])


def steps(made, tokens):
    """Logits of every token, the prompt's at once and the others one by one through the cache."""
    with torch.no_grad():
        result = made(tokens[:, :17], use_cache=True)
        logits, cache = [result.logits], result.past_key_values
        for i in range(17, tokens.shape[1]):
            result = made(tokens[:, i : i + 1], past_key_values=cache, use_cache=True)
            logits.append(result.logits)
    return torch.cat(logits, 1).float()


@pytest.fixture(scope="module")
def tiny():
    sixwarp.transformers.register()
    return zoo.make("llama", "eager"), zoo.make("llama", "sixwarp")


TOKENS = torch.randint(2, zoo.VOCABULARY, (1, 12), generator=torch.Generator().manual_seed(3))
ENDS = torch.tensor([0, 5, 6, 12])
POSITIONS = torch.cat([torch.arange(n) for n in ENDS.diff()])[None]
OFFSETS = {"cu_seq_lens_q": ENDS, "cu_seq_lens_k": ENDS, "max_length_q": 6, "max_length_k": 6}


def logits(model, **named):
    with torch.no_grad():
        return model(TOKENS, use_cache=False, **named).logits


def near(got, want):
    torch.testing.assert_close(got, want, atol=2e-4, rtol=2e-4)


def test_packed_sequences_by_offsets(tiny):
    """eager ignores offsets: it is given the sequences as a mask, or by their positions."""
    numbers = torch.bucketize(torch.arange(12), ENDS, right=True)
    seen = (numbers[:, None] == numbers) & torch.ones(12, 12, dtype=torch.bool).tril()
    added = torch.zeros(12, 12).masked_fill(~seen, torch.finfo(torch.float32).min)[None, None]
    near(logits(tiny[1], **OFFSETS), logits(tiny[0], attention_mask=added))
    near(logits(tiny[1], position_ids=POSITIONS, **OFFSETS), logits(tiny[0], position_ids=POSITIONS))
    without_bounds = {"cu_seq_lens_q": ENDS.int(), "cu_seq_lens_k": ENDS.int()}
    near(logits(tiny[1], position_ids=POSITIONS, **without_bounds), logits(tiny[0], position_ids=POSITIONS))


@pytest.mark.parametrize(
    "named, error, match",
    [
        ({"cu_seq_lens_q": ENDS}, ValueError, "given together"),
        ({**OFFSETS, "position_ids": torch.arange(12)[None] % 6}, ValueError, "different sequences"),
        ({**OFFSETS, "attention_mask": torch.arange(12)[None] > 2}, ValueError, "without padding"),
        ({"cu_seq_lens_q": ENDS + 1, "cu_seq_lens_k": ENDS}, ValueError, "cu_seqlens_q"),
        ({"attention_bias": torch.ones(1)}, NotImplementedError, "keyword attention_bias"),
        ({"head_mask": 3}, NotImplementedError, "LlamaAttention gives the keyword head_mask"),
        ({"cache": object()}, NotImplementedError, "keyword cache"),
        ({"output_attentions": True}, NotImplementedError, "output_attentions=True"),
    ],
)
def test_what_is_asked_for_and_not_done_is_refused(tiny, named, error, match):
    with pytest.raises(error, match=match):
        logits(tiny[1], **named)


def test_keywords_that_ask_for_nothing_pass(tiny):
    named = dict(head_mask=None, output_attentions=False, num_items_in_batch=3, output_hidden_states=True)
    near(logits(tiny[1], **named), logits(tiny[0]))


def test_dropout_is_refused():
    sixwarp.transformers.register()
    model = zoo.make("llama", "sixwarp", attention_dropout=0.1).train()
    with pytest.raises(NotImplementedError, match="dropout, and it is 0.1"):
        logits(model)


def test_how_gradients_are_asked_for():
    with pytest.raises(ValueError, match="gradients is 'yes'"):
        sixwarp.transformers.register(gradients="yes")


def test_frozen_models_need_no_gradients(tiny):
    model = zoo.make("llama", "sixwarp").requires_grad_(False)
    near(model(TOKENS).logits, logits(tiny[0]))


def test_packed_sequences_are_trained_on_as_such():
    sixwarp.transformers.register(gradients="eager")
    near(zoo.make("llama", "sixwarp")(TOKENS, use_cache=False, position_ids=POSITIONS, **OFFSETS).logits.detach(),
         logits(zoo.make("llama", "eager"), position_ids=POSITIONS))  # fmt: skip
    sixwarp.transformers.register()


def layer(**attributes):
    return types.SimpleNamespace(config=types.SimpleNamespace(), **attributes)


def heads(queries, keys):
    return torch.randn(1, 2, queries, 16), torch.randn(1, 2, keys, 16), torch.randn(1, 2, keys, 16)


def test_without_a_mask_a_model_must_be_clear():
    with pytest.raises(ValueError, match="3 queries on 7 keys: a mask must say"):
        attention_forward(layer(is_causal=True), *heads(3, 7))
    with pytest.raises(ValueError, match="sliding_window is 4 for 7 keys"):
        attention_forward(layer(is_causal=True), *heads(7, 7), sliding_window=4)
    attention = torch.nn.functional.scaled_dot_product_attention
    for queries, keys, causal in ((3, 7, False), (1, 7, True), (7, 7, True), (7, 7, False)):
        x = heads(queries, keys)
        want = attention(*x, is_causal=causal and queries > 1).transpose(1, 2)
        near(attention_forward(layer(is_causal=causal), *x)[0], want)
        near(attention_forward(layer(is_causal=not causal), *x, is_causal=causal)[0], want)


@pytest.mark.parametrize("shape", [(7, 7), (1, 7), (1, 1, 3, 7), (1, 3, 7, 7), (2, 1, 7, 7)])
def test_masks_of_another_shape_are_refused(shape):
    with pytest.raises(ValueError, match="attention_mask has shape"):
        attention_forward(layer(), *heads(7, 7), torch.zeros(shape))


WINDOW = masking_utils.sliding_window_causal_mask_function(3)
HOLES = torch.tensor([[1, 1, 0, 1, 1, 0, 1, 1], [1, 1, 1, 1, 1, 1, 1, 1]], dtype=torch.bool)
LEFT = torch.tensor([[0, 0, 0, 1, 1, 1, 1, 1], [0, 1, 1, 1, 1, 1, 1, 1]], dtype=torch.bool)
NUMBERS = torch.tensor([[0, 0, 0, 1, 1, 1, 1, 2], [0, 1, 1, 1, 1, 1, 2, 2]])
PACKED = masking_utils.packed_sequence_mask_function(NUMBERS)
FULL, CAUSAL = masking_utils.bidirectional_mask_function, masking_utils.causal_mask_function
BOTH_SIDES = masking_utils.sliding_window_bidirectional_mask_function(2)
MASKS = {
    "causal": dict(q_length=8, mask_function=CAUSAL),
    "causal, behind a cache": dict(q_length=3, q_offset=5, mask_function=CAUSAL),
    "causal, static cache": dict(q_length=3, q_offset=torch.tensor(2), mask_function=CAUSAL),
    "causal, one query of a static cache": dict(q_length=1, q_offset=torch.tensor(4), mask_function=CAUSAL),
    "causal, padded": dict(q_length=8, mask_function=CAUSAL, attention_mask=LEFT),
    "causal, padded within": dict(q_length=3, q_offset=5, mask_function=CAUSAL, attention_mask=HOLES),
    "causal, short padding": dict(q_length=3, q_offset=2, mask_function=CAUSAL, attention_mask=LEFT[:, :5]),
    "window": dict(q_length=8, mask_function=WINDOW),
    "window, offset keys": dict(q_length=3, q_offset=9, kv_offset=4, mask_function=WINDOW),
    "window, padded": dict(q_length=8, mask_function=WINDOW, attention_mask=LEFT),
    "window, offset keys, padded": dict(
        q_length=3, q_offset=9, kv_offset=4, mask_function=WINDOW, attention_mask=torch.arange(12).expand(2, 12) > 8
    ),
    "packed": dict(q_length=8, mask_function=masking_utils.and_masks(CAUSAL, PACKED)),
    "packed windows": dict(q_length=8, mask_function=masking_utils.and_masks(WINDOW, PACKED)),
    "full": dict(q_length=8, mask_function=FULL),
    "full, other keys": dict(q_length=5, mask_function=FULL, attention_mask=LEFT),
    "full, keys at the end do not count": dict(q_length=8, mask_function=FULL, attention_mask=LEFT.flip(1)),
    "window on both sides": dict(q_length=8, mask_function=BOTH_SIDES),
}


def pair(name):
    given = dict(MASKS[name], batch_size=2, kv_length=8)
    return mask(**given), masking_utils.eager_mask(**given)


@pytest.mark.parametrize("name", MASKS)
def test_what_a_mask_says_is_what_its_pattern_does(name):
    """Rows that see a key are those of every element's mask; rows of padding are 0 or what they are there."""
    ours, dense = pair(name)
    assert isinstance(ours, Mask) and ours.visible is not None
    generator = torch.Generator().manual_seed(5)
    q, k, v = (torch.randn(2, 2, n, 16, generator=generator) for n in (dense.shape[2], 8, 8))
    got = ours.visible.attend(q, k, v, None, {})
    want = torch.nn.functional.scaled_dot_product_attention(q, k, v, dense).transpose(1, 2)
    rows = got.flatten(2).any(-1)
    seen = (dense == 0).any(-1)[:, 0].expand_as(rows)
    near(got[rows], want[rows])
    assert not (rows & ~seen).any() and ours._dense is None
    padding = MASKS[name].get("attention_mask")
    assert rows.all() or (padding is not None and (rows | ~seen | ~padding[:, -rows.shape[1] :]).all())


@pytest.mark.parametrize("name", MASKS)
def test_what_computes_with_a_mask_gets_every_element(name):
    ours, dense = pair(name)
    assert (ours.shape, ours.dtype, ours.device, ours.dim()) == (dense.shape, dense.dtype, dense.device, 4)
    assert ours.to(torch.float32) is ours and ours.to("cpu") is ours and ours._dense is None
    assert torch.equal(ours + 1, dense + 1)
    assert torch.equal(ours[:, :, :1, 2:], dense[:, :, :1, 2:])
    assert torch.equal(torch.cat([ours, dense], -1), torch.cat([dense, dense], -1))
    assert torch.equal(torch.nn.functional.pad(ours, (0, 2)), torch.nn.functional.pad(dense, (0, 2)))
    assert torch.equal(torch.where(ours < -1, 1.0, 2.0), torch.where(dense < -1, 1.0, 2.0))
    assert torch.equal(ours.to(torch.bfloat16), dense.to(torch.bfloat16))
    assert not isinstance(ours.clone(), Mask)


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.__setitem__((..., 0), -5.0),
        lambda x: x.masked_fill_(x == 0, -5.0),
        lambda x: x.__iadd__(1.0),
        lambda x: torch.add(x, 1.0, out=x),
    ],
)
def test_what_is_written_to_a_mask_counts(write):
    ours, dense = pair("causal")
    write(ours), write(dense)
    assert ours.visible is None and torch.equal(ours.dense(), dense)


def test_patterns_that_only_a_mask_of_every_element_says():
    chunked = masking_utils.chunked_causal_mask_function(3, torch.zeros(2, dtype=torch.int64))
    either = masking_utils.or_masks(CAUSAL, masking_utils.blockwise_overlay(NUMBERS))
    own = lambda batch, head, q, kv: kv <= q
    for given in (
        dict(mask_function=chunked), dict(mask_function=either), dict(mask_function=own),
        dict(mask_function=masking_utils.and_masks(WINDOW, own)), dict(mask_function=WINDOW, attention_mask=HOLES),
        dict(mask_function=BOTH_SIDES, attention_mask=LEFT),
        dict(mask_function=masking_utils.and_masks(PACKED, CAUSAL), attention_mask=HOLES),
        dict(mask_function=CAUSAL, attention_mask=LEFT, q_length=1, q_offset=7),
        dict(mask_function=FULL, attention_mask=LEFT, q_length=1),
    ):  # fmt: skip
        given = {"batch_size": 2, "q_length": 8, "kv_length": 8, **given}
        ours = mask(**given)
        assert not isinstance(ours, Mask) and torch.equal(ours, masking_utils.eager_mask(**given))


def test_unknown_keywords_of_masks_are_refused():
    with pytest.raises(TypeError, match="block_size"):
        mask(1, 8, 8, block_size=3)


def test_masks_that_a_user_makes(tiny):
    """Of every element, as numbers and as booleans; and of tokens, with some left out between others."""
    seen = torch.rand(1, 1, 12, 12, generator=torch.Generator().manual_seed(4)) < 0.5
    seen |= torch.eye(12, dtype=torch.bool)
    added = torch.zeros(1, 1, 12, 12).masked_fill(~seen, torch.finfo(torch.float32).min)
    want = logits(tiny[0], attention_mask=added)
    near(logits(tiny[1], attention_mask=added), want)
    near(logits(tiny[1], attention_mask=seen), want)
    for name in ("llama", "mistral"):
        kept = torch.tensor([[1, 1, 0, 0, 1, 1, 0, 1, 1, 1, 0, 1]])
        got, want = (logits(zoo.make(name, x), attention_mask=kept)[kept.bool()] for x in ("sixwarp", "eager"))
        near(got, want)


def test_a_bias_of_every_element():
    """With each kind of mask: it is added to scores."""
    generator = torch.Generator().manual_seed(6)
    for name in MASKS:
        ours, dense = pair(name)
        q, k, v = (torch.randn(2, 4, n, 16, generator=generator) for n in (dense.shape[2], 8, 8))
        bias = torch.randn(1, 4, dense.shape[2], 8, generator=generator)
        seen = (dense == 0).any(-1)[:, 0]
        want = torch.nn.functional.scaled_dot_product_attention(q, k, v, dense + bias).transpose(1, 2)
        got, _ = attention_forward(layer(), q, k, v, ours, position_bias=bias)
        near(got[seen], want[seen])
    x = heads(7, 7)
    bias = torch.randn(1, 2, 7, 7, generator=generator)
    want = torch.nn.functional.scaled_dot_product_attention(*x, bias).transpose(1, 2)
    near(attention_forward(layer(is_causal=False), *x, position_bias=bias)[0], want)
    causal = torch.ones(7, 7, dtype=torch.bool).tril()
    hidden = bias.masked_fill(~causal, float("-inf"))
    want = torch.nn.functional.scaled_dot_product_attention(*x, hidden).transpose(1, 2)
    near(attention_forward(layer(is_causal=True), *x, position_bias=bias)[0], want)
    near(attention_forward(layer(), *x, causal[None, None], position_bias=bias)[0], want)


@pytest.mark.parametrize("name, padded", [("llama", False), ("gemma2", True)])
def test_a_compiled_model(name, padded):
    sixwarp.transformers.register()
    eager, ours = zoo.make(name, "eager"), zoo.make(name, "sixwarp")
    padding = torch.ones_like(TOKENS)
    padding[:, :3] = 0
    named = {"attention_mask": padding} if padded else {}
    rows = padding.bool() if padded else torch.ones_like(TOKENS, dtype=torch.bool)
    torch._dynamo.reset()
    with torch.no_grad():
        compiled = torch.compile(ours.forward, fullgraph=True, backend="aot_eager")
        got = compiled(TOKENS, use_cache=False, **named).logits
    near(got[rows], logits(eager, **named)[rows])


def test_a_compiled_model_takes_masks_made_before(tiny):
    padding = torch.ones_like(TOKENS)
    padding[:, :3] = 0
    embedded = tiny[1].get_input_embeddings()(TOKENS)
    made = masking_utils.create_masks_for_generate(tiny[1].config, embedded, padding, None)
    with torch.no_grad():
        compiled = torch.compile(tiny[1].forward, fullgraph=True, backend="aot_eager")
        got = compiled(TOKENS, attention_mask=made, use_cache=False).logits
    near(got[padding.bool()], logits(tiny[0], attention_mask=padding)[padding.bool()])
