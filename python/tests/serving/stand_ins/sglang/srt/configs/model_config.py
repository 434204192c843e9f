class ModelConfig:
    is_encoder_decoder: bool
    head_dim: int
