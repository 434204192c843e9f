class AttentionBackend:
    forward_metadata: object = None
    needs_cpu_seq_lens: bool = True

    def init_forward_metadata(self, forward_batch):
        self.init_forward_metadata_out_graph(forward_batch)

    def init_forward_metadata_out_graph(self, forward_batch, in_capture=False):
        pass

    def init_cuda_graph_state(self, max_bs, max_num_tokens):
        raise NotImplementedError

    def get_cuda_graph_seq_len_fill_value(self):
        raise NotImplementedError

    def forward_decode(self, q, k, v, layer, forward_batch, save_kv_cache=True, **kwargs):
        raise NotImplementedError

    def forward_extend(self, q, k, v, layer, forward_batch, save_kv_cache=True, **kwargs):
        raise NotImplementedError

    def support_triton(self):
        return True
