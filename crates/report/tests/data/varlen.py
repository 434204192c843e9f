import triton.language as tl








    full, empty = barriers(stages=2)









    kv_tiles = cdiv(kv_lens[sequence], BLOCK)










    tiles = cdiv(q_lens[sequence], BLOCK)  # causal: as many as rows


        empty.wait(t)
        copy(kv[t], ring[t % 2], full)







        full.wait(t)
        total += ring[t % 2]
