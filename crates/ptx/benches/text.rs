//! Reading and writing a kernel of 20 000 instructions: the size of a large unrolled attention
//! kernel. The aims are 20 ms to print and 100 ms to parse.
//!
//! 2026-11-15, one core of an idle Xeon (model 207), `cargo bench -p sixwarp-ptx --bench text -- --quick`:
//! 20,000 instructions are parsed in 12.0 ms, printed in 3.8, resolved in 6.5, verified in 13.4.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use sixwarp_ptx::{parse, resolve, verify};
use std::fmt::Write;
use std::hint::black_box;

const INSTRUCTIONS: usize = 20_000;

/// A kernel whose mix of instructions is that of a softmax warp: arithmetic, shared-memory traffic,
/// barriers in blocks of their own, now and then a matrix instruction with 64 accumulators.
fn kernel_text() -> String {
    let mut text = String::from(".version 8.7\n.target sm_90a\n.address_size 64\n");
    text.push_str(".extern .shared .align 1024 .b8 smem[];\n.visible .entry k(.param .u64 p0)\n");
    text.push_str(".maxntid 384, 1, 1\n{\n\t.reg .pred %p<64>;\n\t.reg .b32 %r<4096>;\n");
    text.push_str("\t.reg .f32 %f<4096>;\n\t.reg .b64 %rd<512>;\n");
    for i in 0..INSTRUCTIONS {
        instruction(&mut text, i).expect("writing to a string");
    }
    text.push_str("}\n");
    text
}

fn instruction(text: &mut String, i: usize) -> std::fmt::Result {
    let r = |k: usize| (i * 7 + k * 131) % 4096;
    match i % 16 {
        0 => writeln!(
            text,
            "\tld.shared.v4.b32 {{%r{}, %r{}, %r{}, %r{}}}, [%r{}+{}];",
            r(1),
            r(2),
            r(3),
            r(4),
            r(5),
            i % 512 * 16
        ),
        1 => writeln!(text, "\tsetp.lt.s32 %p{}, %r{}, {};", i % 64, r(1), i),
        2 => writeln!(text, "\t@%p{} bra $L__BB0_{i};\n$L__BB0_{i}:", i % 64),
        3 => writeln!(
            text,
            "\t{{\n\t.reg .pred P1;\n\tWAIT:\n\tmbarrier.try_wait.parity.shared::cta.b64 P1, [%r{}], %r{};\n\t}}",
            r(1),
            r(2)
        ),
        4 => writeln!(text, "\t.loc 1 {} 9\n\tex2.approx.ftz.f32 %f{}, %f{};", i, r(1), r(2)),
        5 if i % 320 == 5 => {
            let list: Vec<String> = (0..64).map(|k| format!("%f{}", r(k))).collect();
            writeln!(
                text,
                "\twgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {{{}}}, %rd{}, %rd{}, 1, 1, 1, 0, 1;",
                list.join(", "),
                i % 512,
                (i + 1) % 512
            )
        }
        6 => writeln!(text, "\tmul.f32 %f{}, %f{}, 0f3FB8AA3B;", r(1), r(2)),
        7 => writeln!(text, "\tselp.b32 %r{}, {}, -1, %p{};", r(1), i, i % 64),
        _ => writeln!(text, "\tfma.rn.f32 %f{}, %f{}, %f{}, %f{};", r(1), r(2), r(3), r(4)),
    }
}

fn text(criterion: &mut Criterion) {
    let source = kernel_text();
    let module = parse(&source).expect("the benchmark's own text");
    let kernel = module.entry("k").expect("the kernel");
    let mut group = criterion.benchmark_group("20k instructions");
    group.throughput(Throughput::Bytes(source.len() as u64)).sample_size(30);
    group.bench_function("parse", |b| b.iter(|| parse(black_box(&source))));
    group.bench_function("print", |b| b.iter(|| black_box(&module).to_string()));
    group.bench_function("resolve", |b| b.iter(|| resolve::resolve(&module, black_box(kernel))));
    group.bench_function("verify", |b| b.iter(|| verify(black_box(&module))));
    group.finish();
}

criterion_group!(benches, text);
criterion_main!(benches);
