"""A small randomly initialised model says the same with every attention implementation."""

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import sixwarp.transformers

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
