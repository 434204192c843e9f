//! Each rule of a problem, broken once: the error names the tensor, the rule and the value.

use sixwarp_problem::{
    AttnMask, DType, Descale, Mask, MaskElement, Problem, ProblemBuilder, QueryLengths, Segment,
    SegmentSlot, Slot, Storage, View,
};

fn view(shape: [u64; 4]) -> View {
    View::bhsd(DType::Bf16, shape)
}

fn queries() -> ProblemBuilder {
    Problem::builder(view([2, 4, 3, 64]))
}

fn keys() -> View {
    view([2, 2, 5, 64])
}

fn segment() -> Segment {
    Segment::new(keys(), keys())
}

#[track_caller]
fn refused(builder: ProblemBuilder, message: &str) {
    assert_eq!(builder.build().unwrap_err().to_string(), message);
}

#[test]
fn a_plain_problem_is_accepted() {
    let problem = queries().segment(segment()).build().unwrap();
    assert_eq!(problem.scale, 0.125);
    let scaled = |q: ProblemBuilder| q.segment(segment()).scale(0.1).build().unwrap().scale;
    assert_eq!(scaled(queries()), f64::from(0.1f32));
    assert_eq!((problem.group(), problem.value_dim()), (2, 64));
    assert_eq!(problem.flops(), 4.0 * 64.0 * 15.0 * 8.0);
}

#[test]
fn rule_1_extents_strides_and_sizes() {
    refused(
        Problem::builder(view([2, 0, 3, 64])).segment(segment()),
        "q: heads and dim must be at least 1 (rule 1), but it is bf16[2,0,3,64]:[0,192,64,1]",
    );
    let strided = view([2, 4, 3, 64]).with_strides([768, 192, 64, 2]);
    refused(
        Problem::builder(strided).segment(segment()),
        "q: the last stride must be 1 (rule 1), but it is 2",
    );
    let huge = view([1 << 30, 1 << 30, 1 << 30, 1 << 30]);
    assert!(Problem::builder(huge).segment(segment()).build().is_err());
    let repeated = view([2, 2, u64::MAX, 64]).with_strides([0, 0, 0, 1]);
    refused(
        queries().segment(Segment::new(repeated, repeated)),
        "k: every extent must be below 2^56 (rule 1), but it is bf16[2,2,18446744073709551615,64]:[0,0,0,1]",
    );
    refused(
        queries().segment(segment().paged(1 << 60)),
        "page_table: must span less than 2^56 bytes (rule 1), but it is 1152921504606846976",
    );
    refused(
        queries().segment(segment().indexed(u64::MAX)),
        "indices: must span less than 2^56 bytes (rule 1), but it is 18446744073709551615",
    );
}

#[test]
fn rule_2_one_dtype() {
    let wrong = View::bhsd(DType::F16, [2, 2, 5, 64]);
    refused(
        queries().segment(Segment::new(wrong, keys())),
        "k: must have q's dtype or be e4m3 (rule 2), but it is f16",
    );
    refused(
        queries().segment(Segment::new(keys(), wrong)),
        "v: must have k's dtype (rule 2), but it is f16",
    );
    refused(
        queries().segment(segment()).out(View::bhsd(DType::F32, [2, 4, 3, 64])),
        "out: must have q's dtype (rule 2), but it is f32",
    );
    let narrow = View::bhsd(DType::E4m3, [2, 2, 5, 64]);
    refused(
        queries().segment(Segment::new(narrow, keys())),
        "v: must have k's dtype (rule 2), but it is bf16",
    );
    refused(
        Problem::builder(narrow).segment(Segment::new(narrow, narrow)),
        "q: must not be e4m3 (rule 2), but it is e4m3",
    );
    assert!(queries().segment(Segment::new(narrow, narrow)).build().is_ok());
}

#[test]
fn rule_3_dims() {
    refused(
        queries().segment(Segment::new(view([2, 2, 5, 32]), keys())),
        "k: must have q's dim (rule 3), but it is 32",
    );
    refused(
        queries().segment(segment()).segment(Segment::new(keys(), view([2, 2, 5, 32]))),
        "segment 1 v: must have out's dim (rule 3), but it is 32",
    );
    refused(
        queries().segment(Segment::shared(keys(), 65)),
        "v: K = V needs a value dim of at most the key dim (rule 3), but it is 65",
    );
}

#[test]
fn rule_4_heads() {
    let three = view([2, 3, 5, 64]);
    refused(
        queries().segment(Segment::new(three, three)),
        "k: KV heads must divide query heads (rule 4), but it is 3",
    );
    let one = view([2, 1, 5, 64]);
    refused(
        queries().segment(segment()).segment(Segment::new(one, one)),
        "segment 1 k: segments must agree on heads (rule 4), but it is 1",
    );
}

#[test]
fn rule_5_batches_and_pages() {
    let three = view([3, 2, 5, 64]);
    refused(
        queries().segment(Segment::new(three, three)),
        "k: must have batch 2 (rule 5), but it is 3",
    );
    refused(
        queries().segment(segment().packed(5)),
        "k: packed sequences need a view of batch 1 (rule 5), but it is bf16[2,2,5,64]:[640,320,64,1]",
    );
    let none = view([0, 2, 5, 64]);
    refused(
        queries().segment(Segment::new(none, none).paged(1)),
        "k: there is at least one page (rule 5), but it is 0",
    );
    assert!(Problem::builder(none).segment(Segment::new(none, none)).build().is_ok());
    let empty = view([2, 2, 0, 64]);
    refused(
        queries().segment(Segment::new(empty, empty).paged(1)),
        "k: a page holds at least one row (rule 5), but it is 0",
    );
    let packed = |batch| QueryLengths::Packed { batch, longest: 3 };
    assert!(queries().query_lengths(packed(2)).segment(segment()).build().is_err());
    refused(
        Problem::builder(view([1, 4, 3, 64])).query_lengths(packed(0)).segment(segment()),
        "cu_seqlens_q: 1 to 2^31 - 1 sequences are possible (rule 5), but it is 0",
    );
}

#[test]
fn rule_6_segments() {
    refused(queries(), "segments: one or two are needed (rule 6), but it is 0");
    refused(
        queries().segment(segment()).segment(segment()).segment(segment()),
        "segments: one or two are needed (rule 6), but it is 3",
    );
    refused(
        queries().segment(segment().packed(5).paged(3)),
        "k: is either packed or paged (rule 6), but it is both",
    );
}

#[test]
fn rule_7_numbers() {
    refused(
        queries().segment(segment()).scale(f32::NAN),
        "scale: must be finite (rule 7), but it is NaN",
    );
    refused(
        queries().segment(segment()).scale(1e300),
        "scale: must be finite (rule 7), but it is inf",
    );
    refused(
        queries().segment(segment()).softcap(0.0),
        "softcap: must be finite and positive (rule 7), but it is 0",
    );
    refused(
        queries().segment(segment().mask(Mask::Compressed { ratio: 0 })),
        "k: a compression ratio must be at least 1 (rule 7), but it is 0",
    );
}

#[test]
fn rule_8_outputs_do_not_overlap() {
    let out = |strides| view([2, 4, 3, 64]).with_strides(strides);
    for strides in [[768, 0, 64, 1], [768, 192, 63, 1], [191, 192, 64, 1], [64, 64, 64, 1]] {
        let error = queries().segment(segment()).out(out(strides)).build().unwrap_err();
        assert_eq!(
            (error.subject.as_str(), error.rule.as_str()),
            ("out", "must not overlap itself (rule 8)")
        );
    }
    for strides in [[768, 192, 64, 1], [256, 64, 512, 1], [1000, 210, 70, 1]] {
        assert!(queries().segment(segment()).out(out(strides)).build().is_ok(), "{strides:?}");
    }
    let none = Problem::builder(view([2, 4, 0, 64])).segment(segment()).build();
    assert!(none.is_ok(), "no token overlaps another: {none:?}");
}

#[test]
fn parts_are_changed_only_by_what_checks_them_again() {
    let problem = queries().segment(segment()).build().unwrap();
    assert_eq!(problem.clone().with(|_| {}), Ok(problem.clone()));
    let error = problem.clone().with(|parts| parts.q.shape[3] = 128).unwrap_err().to_string();
    assert_eq!(error, "k: must have q's dim (rule 3), but it is 64");
    let error = problem.with(|parts| parts.segments.clear()).unwrap_err().to_string();
    assert_eq!(error, "segments: one or two are needed (rule 6), but it is 0");
}

#[test]
fn rule_9_index_lists() {
    refused(
        queries().segment(segment().indexed(0)),
        "k: an index list has at least one entry (rule 9), but it is 0",
    );
    refused(
        queries().segment(segment().indexed(4).mask(Mask::Causal)),
        "k: an index list needs a full mask (rule 9), but it is causal",
    );
    refused(
        queries().segment(segment().indexed(4).packed(5)),
        "k: an index list needs keys that are not packed (rule 9), but it is packed",
    );
}

#[test]
fn lists_may_lie_apart() {
    let problem = queries().segment(segment().indexed(4).list_pitch(100)).build().unwrap();
    // Two sequences of three queries.
    let slot = Slot::Segment(0, SegmentSlot::Indices);
    assert_eq!(problem.slot_bytes(slot), (5 * 100 + 4) * 4);
    let problem = queries().segment(segment().indexed(4).list_pitch(0)).build().unwrap();
    assert_eq!(problem.slot_bytes(slot), 16);
    refused(
        queries().segment(segment().indexed(4).list_pitch(u64::MAX)),
        "indices: must span less than 2^56 bytes (rule 1), but it is 18446744073709551615",
    );
}

#[test]
fn rule_10_packed_rows() {
    let q = Problem::builder(view([1, 8, 1, 512]));
    let rows = view([4, 1, 64, 512]);
    let packed = Segment::shared(rows, 512).paged(4).stored(Storage::Model1);
    let problem = q.clone().segment(packed).build().unwrap();
    assert_eq!(problem.slot_bytes(Slot::K), 3 * 37440 + 64 * 584);
    let apart = Segment::shared(rows, 512).paged(4).stored(Storage::Model1).page_bytes(40000);
    let problem = q.clone().segment(apart.clone()).build().unwrap();
    assert_eq!(problem.slot_bytes(Slot::K), 3 * 40000 + 64 * 584);
    refused(
        q.clone().segment(apart.page_bytes(37375)),
        "k: pages of 37376 bytes must begin at least as far apart (rule 10), but it is 37375",
    );
    refused(
        queries().segment(segment().page_bytes(64)),
        "k: only pages of packed rows are given a size (rule 10), but it is 64",
    );
    refused(
        q.clone().segment(Segment::shared(rows, 512).stored(Storage::V32)),
        "k: V3.2 rows are bf16 of dim 576 with one KV head (rule 10), but it is \
         bf16[4,1,64,512]:[32768,32768,512,1]",
    );
    refused(
        q.segment(Segment::new(rows, rows).paged(4).stored(Storage::Model1)),
        "k: MODEL1 rows are keys and values in one (rule 10), but it is separate values",
    );
    refused(
        queries().segment(Segment::shared(keys(), 64).stored(Storage::Model1)),
        "k: MODEL1 rows are bf16 of dim 512 with one KV head (rule 10), but it is \
         bf16[2,2,5,64]:[640,320,64,1]",
    );
}

#[test]
fn rule_12_descales() {
    refused(
        queries().segment(segment().descaled(Descale::PER_TENSOR, Descale::PER_HEAD)),
        "k_descale: needs e4m3 keys and values (rule 12), but it is bf16",
    );
    let narrow = View::bhsd(DType::E4m3, [2, 2, 5, 64]);
    let descaled = |v| Segment::new(narrow, narrow).descaled(Descale::PER_TENSOR, v);
    refused(
        queries().segment(descaled(Descale { strides: [1 << 60, 1] })),
        "v_descale: must span less than 2^56 bytes (rule 12), but it is strides [1152921504606846976, 1]",
    );
    let problem = queries().segment(descaled(Descale { strides: [2, 1] })).build().unwrap();
    let bytes = |part| problem.slot_bytes(Slot::Segment(0, part));
    assert_eq!((bytes(SegmentSlot::KDescale), bytes(SegmentSlot::VDescale)), (4, 16));
    assert_eq!(bytes(SegmentSlot::K), 2 * 2 * 5 * 64);
    let text = serde_json::to_string(&problem).unwrap();
    assert_eq!(serde_json::from_str::<Problem>(&text).unwrap(), problem);
}

#[test]
fn rule_11_mask_tensors() {
    let mask = |shape| AttnMask::new(MaskElement::Bool, shape);
    for shape in [[2, 4, 3, 5], [1, 1, 1, 1], [1, 4, 1, 5], [2, 1, 3, 1]] {
        let problem = queries().segment(segment().attn_mask(mask(shape))).build().unwrap();
        let slot = Slot::Segment(0, SegmentSlot::AttnMask);
        assert_eq!(problem.slots().last(), Some(&slot));
        assert_eq!(problem.slot_bytes(slot), shape.iter().product::<u64>());
    }
    let names = ["batch", "query heads", "queries", "keys"];
    for (d, (name, extent)) in names.iter().zip([2, 4, 3, 5]).enumerate() {
        let mut shape = [2, 4, 3, 5];
        shape[d] += 1;
        refused(
            queries().segment(segment().attn_mask(mask(shape))),
            &format!(
                "attn_mask: its extent of {name} must be 1 or {extent} (rule 11), but it is {}",
                extent + 1
            ),
        );
    }
    refused(
        queries().segment(segment().paged(3).attn_mask(mask([1, 1, 1, 5]))),
        "attn_mask: its extent of keys must be 1 or 15 (rule 11), but it is 5",
    );
    refused(
        queries().segment(segment()).segment(segment().indexed(5).attn_mask(mask([1; 4]))),
        "segment 1 attn_mask: needs keys that are not listed (rule 11), but it is beside index lists",
    );
    let one = view([1, 2, 5, 64]);
    let packed = Segment::new(one, one).packed(5).attn_mask(mask([1; 4]));
    refused(
        Problem::builder(view([1, 4, 3, 64])).segment(packed),
        "attn_mask: needs queries and keys that are not packed (rule 11), but it is beside packed \
         sequences",
    );
    let far = AttnMask::new(MaskElement::Float(DType::F32), [2, 4, 3, 5]);
    refused(
        queries().segment(segment().attn_mask(far.with_strides([1 << 60, 1, 1, 1]))),
        "attn_mask: must span less than 2^56 bytes (rule 1), but it is \
         f32[2,4,3,5]:[1152921504606846976,1,1,1]",
    );
}
