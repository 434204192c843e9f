from dataclasses import dataclass


class ForwardMode:
    def is_decode_or_idle(self):
        raise NotImplementedError


@dataclass
class ForwardBatch:
    forward_mode: object
    batch_size: int
    req_pool_indices: object
    seq_lens: object
    out_cache_loc: object
    seq_lens_cpu: object = None
    extend_seq_lens: object = None
    extend_seq_lens_cpu: object = None
