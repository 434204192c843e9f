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
    options = dict(attention_mask=mask, max_new_tokens=8, do_sample=False, pad_token_id=0)
    eager, ours = (made.generate(prompt, **options) for made in models)
    assert torch.equal(eager, ours)
