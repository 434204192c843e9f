//! How fast the simulator is: lane instructions per second, with and without checks. On Linux also per second of the
//! CPU, which means something on a busy machine too.
//!
//! `cargo run --release -p sixwarp-sim --example throughput`

use program::{Access, Argument, Buffer, BufferId, Launch, Program};
use sixwarp_sim::{Options, run};
use std::path::PathBuf;
use std::time::Instant;

const HEADER: &str = ".version 8.7\n.target sm_90a\n.address_size 64\n";

/// Integer and floating-point arithmetic only.
const ARITHMETIC: &str = "
.visible .entry k(.param .u64 out) {
  .reg .b32 %r<8>; .reg .f32 %f<8>; .reg .pred %p<2>; .reg .b64 %rd<3>;
  mov.u32 %r1, %tid.x; mov.b32 %r2, 0; mov.f32 %f1, 0f3F800000; mov.f32 %f3, 0f00000000;
L:
  fma.rn.f32 %f3, %f1, %f1, %f3;
  mul.f32 %f4, %f3, %f1;
  max.f32 %f5, %f4, %f3;
  mad.lo.s32 %r3, %r2, 3, %r1;
  xor.b32 %r4, %r3, %r2;
  add.u32 %r2, %r2, 1;
  setp.lt.u32 %p1, %r2, 20000;
  @%p1 bra L;
  ld.param.u64 %rd1, [out]; mad.wide.u32 %rd2, %r1, 4, %rd1;
  st.global.f32 [%rd2], %f5;
}";

/// Two of nine instructions move 16 bytes per lane through shared memory.
const SHARED_MEMORY: &str = "
.visible .entry k(.param .u64 out) {
  .reg .b32 %r<8>; .reg .f32 %f<8>; .reg .pred %p<2>; .reg .b64 %rd<3>;
  .shared .align 16 .b8 buf[8192];
  mov.u32 %r1, %tid.x; mov.b32 %r2, 0; mov.u32 %r3, buf; mad.lo.u32 %r3, %r1, 16, %r3;
  mov.f32 %f1, 0f3F800000;
L:
  st.shared.v4.f32 [%r3], {%f1, %f1, %f1, %f1};
  ld.shared.v4.f32 {%f2, %f3, %f4, %f5}, [%r3];
  add.f32 %f1, %f2, %f3;
  mul.f32 %f1, %f1, %f4;
  ex2.approx.ftz.f32 %f6, %f1;
  cvt.rn.bf16x2.f32 %r4, %f1, %f6;
  add.u32 %r2, %r2, 1;
  setp.lt.u32 %p1, %r2, 10000;
  @%p1 bra L;
  ld.param.u64 %rd1, [out]; mad.wide.u32 %rd2, %r1, 4, %rd1;
  st.global.f32 [%rd2], %f1;
}";

/// One of six instructions loads 16 bits per lane from global memory that is written, too, by the same CTA.
const NARROW_LOADS: &str = "
.visible .entry k(.param .u64 out) {
  .reg .b32 %r<8>; .reg .pred %p<2>; .reg .b64 %rd<4>; .reg .b16 %h<2>;
  mov.u32 %r1, %tid.x; mov.b32 %r2, 0; mov.b32 %r3, 0; mov.u32 %r5, %ctaid.x;
  ld.param.u64 %rd1, [out]; mad.wide.u32 %rd1, %r5, 1024, %rd1; mad.wide.u32 %rd2, %r1, 4, %rd1; mad.wide.u32 %rd3, %r1, 2, %rd1;
  st.global.b32 [%rd2], %r1; bar.sync 0;
L:
  ld.global.u16 %h1, [%rd3];
  cvt.u32.u16 %r4, %h1;
  add.u32 %r3, %r3, %r4;
  add.u32 %r2, %r2, 1;
  setp.lt.u32 %p1, %r2, 10000;
  @%p1 bra L;
  bar.sync 0;
  st.global.b32 [%rd2], %r3;
}";

fn program(body: &str) -> Program {
    let module = ptx::parse(&format!("{HEADER}{body}")).expect("the kernel parses");
    let launch = Launch {
        kernel: "k".into(),
        grid: [8, 1, 1],
        block: [256, 1, 1],
        cluster: [1, 1, 1],
        shared_bytes: 0,
        args: vec![Argument::Buffer(BufferId(0), 0)],
        overlaps_previous: false,
    };
    let out = Buffer::new("out", 8192, 256, Access::Write);
    Program { module: module.into(), buffers: vec![out], launches: vec![launch] }
}

/// Seconds that the threads of this process have run, where Linux says it.
fn cpu_seconds() -> Option<f64> {
    let tasks = std::fs::read_dir("/proc/self/task").ok()?;
    let of_task = |path: PathBuf| {
        let text = std::fs::read_to_string(path.join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<f64>().ok()
    };
    let nanoseconds: Option<Vec<f64>> = tasks.map(|task| of_task(task.ok()?.path())).collect();
    Some(nanoseconds?.into_iter().sum::<f64>() / 1e9)
}

fn main() {
    let columns = ["kernel", "checks", "million lanes / second", "of the CPU"];
    println!("{:16} {:>8} {:>24} {:>12}", columns[0], columns[1], columns[2], columns[3]);
    let kernels = [
        ("arithmetic", ARITHMETIC),
        ("shared memory", SHARED_MEMORY),
        ("narrow loads", NARROW_LOADS),
    ];
    for (name, body) in kernels {
        let program = program(body);
        for checks in [true, false] {
            let options = Options { checks, ..Options::default() };
            let (start, cpu) = (Instant::now(), cpu_seconds());
            let report = run(&program, &[vec![0; 8192]], &options).expect("the kernel runs");
            let millions = report.counters.lanes as f64 / 1e6;
            let rate = millions / start.elapsed().as_secs_f64();
            let used = cpu.and_then(|cpu| Some(cpu_seconds()? - cpu));
            let of_cpu = used.map_or("?".to_owned(), |used| format!("{:.0}", millions / used));
            let checks = if checks { "on" } else { "off" };
            println!("{name:16} {checks:>8} {rate:>24.0} {of_cpu:>12}");
        }
    }
}
