//! What a run may use: sizes are checked before they are allocated, and what does not end is ended.

mod common;

use common::Case;
use program::{Access, Argument, Buffer, Launch, Program};
use sixwarp_sim::{Error, Limits, Options, Stopped};
use std::time::Duration;

/// The error of a kernel `k` without parameters.
fn refused(module: &str) -> String {
    Case::new(module, 32).run().unwrap_err().to_string()
}

/// A kernel whose body is `body`, with some registers.
fn kernel(body: &str) -> String {
    format!(".entry k() {{ .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<3>; {body} }}")
}

#[test]
fn variables_fit_the_memory_of_the_chip() {
    let shared = kernel(".shared .b8 s[4294967296]; mov.u32 %r1, s;");
    assert_eq!(
        refused(&shared),
        "error: launch 0 (`k`): shared memory 0 dynamic + 4294967296 static bytes: at most 232448 (rule L8)"
    );
    let aligned = kernel(".shared .align 2147483648 .b8 s[4]; mov.u32 %r1, s;");
    assert!(refused(&aligned).contains("aligned to 2147483648"));
    let local = kernel(".local .b8 l[524289]; mov.u64 %rd1, l;");
    assert!(refused(&local).contains("0 of 524288 bytes of local memory are taken"));
    let twice =
        kernel(".shared .b8 a[131072]; .shared .b8 b[131072]; mov.u32 %r1, a; mov.u32 %r2, b;");
    assert!(refused(&twice).contains("262144 static bytes: at most 232448"));
    let outside = format!(".shared .b8 s[262144];{}", kernel("mov.u32 %r1, s;"));
    assert!(refused(&outside).contains("262144 static bytes: at most 232448"));
    let wraps = kernel(".shared .b8 s[4294967296][4294967296]; mov.u32 %r1, s;");
    assert!(refused(&wraps).contains("18446744073709551615 static bytes"));
    assert!(
        refused(".entry k(.param .b8 p[40000]) { ret; }").contains("40000 bytes: at most 32764")
    );
}

#[test]
fn variables_of_the_module_fit_the_limit_of_memory() {
    let global = format!(".global .b8 g[1099511627776];{}", kernel("mov.u64 %rd1, g;"));
    assert_eq!(
        refused(&global),
        "error: `g` takes 1099511627776 bytes of memory, beside 0 that are taken: the limit is 8589934592 \
         (`--memory`)"
    );
}

#[test]
fn buffers_fit_the_limit_of_memory() {
    let module = ptx::parse(&format!("{}{}", common::HEADER, kernel("ret;"))).unwrap();
    let buffer = |bytes| Buffer::new("b", bytes, 256, Access::Write);
    let limits = Limits { memory: 1 << 20, ..Limits::default() };
    let options = Options { limits, ..Options::default() };
    for (bytes, fits) in [(1 << 19, true), (1 << 20, false), (u64::MAX, false)] {
        let program = Program {
            module: module.clone().into(),
            buffers: vec![buffer(bytes)],
            launches: vec![],
        };
        let result = sixwarp_sim::run(&program, &[Vec::new()], &options);
        assert_eq!(result.is_ok(), fits, "{bytes}");
    }
}

#[test]
fn a_launch_fits_the_chip() {
    let case = || Case::new(&kernel("ret;"), 32);
    let error = |case: Case| case.run().unwrap_err().to_string();
    let shared = error(case().geometry(1, 1, u32::MAX));
    assert!(
        shared.contains("shared memory 4294967295 dynamic + 0 static bytes: at most 232448"),
        "{shared}"
    );
    let block = error(Case::new(&kernel("ret;"), 4_294_967_295));
    assert!(block.contains("1024 threads in all (rule L4)"), "{block}");
    let cluster = error(case().geometry(32, 32, 0));
    assert!(cluster.contains("1 to 16 CTAs on sm_100 (rule L6)"), "{cluster}");
    let grid = error(case().geometry(1 << 31, 1, 0));
    assert!(grid.contains("1 to [2147483647, 65535, 65535] (rule L3)"), "{grid}");
    let grid = error(case().extents([65536, 65536, 1], [1, 1, 1]));
    assert!(grid.contains("grid [65536, 65536, 1]"), "{grid}");
    let cluster = error(case().extents([65536, 4, 1], [65536, 65536, 1]));
    assert!(cluster.contains("cluster [65536, 65536, 1]"), "{cluster}");
    let clusters = error(case().extents([2_147_483_647, 65535, 65535], [1, 1, 1]));
    assert!(clusters.contains("can be simulated"), "{clusters}");
}

#[test]
fn what_a_gpu_refuses_is_refused_by_its_rule() {
    let broken = |case: Case| match case.run().unwrap_err() {
        Error::Invalid(violations) => violations[0].rule,
        other => panic!("{other}"),
    };
    let takes = |param: &str| format!(".entry k(.param {param}) {{ ret; }}");
    // A number of the right size and the wrong kind, and a block of the right size and the wrong shape.
    assert_eq!(broken(Case::new(&takes(".f32 x"), 32).word(1)), program::Rule::L(10));
    let shape = ".entry k() .reqntid 8, 4 { ret; }";
    assert_eq!(broken(Case::new(shape, 32)), program::Rule::L(5));
    let rank = ".entry k() .maxclusterrank 1 { ret; }";
    assert_eq!(broken(Case::new(rank, 32).geometry(2, 2, 0)), program::Rule::L(7));
    let fixed = kernel(".shared .b8 s[1024]; mov.u32 %r1, s;");
    let most = (227 << 10) - 1024;
    assert!(Case::new(&fixed, 32).geometry(1, 1, most).report().is_ok());
    assert_eq!(broken(Case::new(&fixed, 32).geometry(1, 1, most + 1)), program::Rule::L(8));
}

#[test]
fn a_captured_launch_fits_the_chip() {
    let module = ptx::parse(&format!(
        "{}.shared .b8 others[131072]; .entry k(.param .b32 p[4]) .maxntid 64 {{ ret; }}",
        common::HEADER
    ));
    let launch = Launch {
        kernel: "k".into(),
        grid: [1; 3],
        block: [64, 1, 1],
        cluster: [1; 3],
        // Beside the module's array, which the kernel does not name, it would not fit.
        shared_bytes: 131_072,
        args: vec![Argument::Bytes(vec![0; 16], vec![])],
        overlaps_previous: false,
    };
    let module = module.unwrap().into();
    let mut program = Program { module, buffers: vec![], launches: vec![launch] };
    sixwarp_sim::run(&program, &[], &Options::default()).unwrap();
    program.launches[0].block = [65, 1, 1];
    let error = sixwarp_sim::run(&program, &[], &Options::default()).unwrap_err();
    let Error::Invalid(violations) = error else { panic!("{error}") };
    assert_eq!(violations[0].rule, program::Rule::L(5));
}

#[test]
fn an_initial_value_is_as_large_as_its_variable() {
    let with = |variable: &str| format!("{variable}{}", kernel("mov.u64 %rd1, g;"));
    let error = |variable: &str| refused(&with(variable));
    let long = error(".global .b32 g[2] = {1, 2, 3};");
    assert_eq!(long, "error: `g`: 3 values for 2 elements (rule 5)");
    assert!(error(".global .b32 g = {1};").contains("a list where a number is due"));
    assert!(error(".global .b32 g[2] = 1;").contains("a number where a list is due"));
}

/// The words of a module variable `g`.
fn words(variable: &str, count: usize) -> Vec<u32> {
    let body = format!(
        "{variable}
         .entry k(.param .u64 out) {{
           .reg .b32 %r<3>; .reg .b64 %rd<5>;
           mov.u32 %r1, %tid.x; mov.u64 %rd1, g; mad.wide.u32 %rd2, %r1, 4, %rd1;
           ld.global.u32 %r2, [%rd2]; ld.param.u64 %rd3, [out]; mad.wide.u32 %rd4, %r1, 4, %rd3;
           st.global.u32 [%rd4], %r2;
         }}"
    );
    Case::new(&body, count as u32).output(count).run().unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn initial_values_leave_zeros_behind_them() {
    assert_eq!(words(".global .b32 g[2][3] = {{1, 2}, {4, 5, 6}};", 6), [1, 2, 0, 4, 5, 6]);
    assert_eq!(words(".global .b32 g[] = {7, 8, 9};", 3), [7, 8, 9]);
    assert_eq!(words(".global .v2 .b32 g[2] = {{1, 2}, {3, 4}};", 4), [1, 2, 3, 4]);
}

fn stopped(case: &Case) -> Stopped {
    match case.run().unwrap_err() {
        Error::Stopped(stopped) => *stopped,
        other => panic!("{other}"),
    }
}

const ENDLESS: &str = ".entry k(.param .u64 out) {
  .reg .b32 %r<3>; .reg .pred %p;
  mov.b32 %r1, 0;
outer:
  add.u32 %r1, %r1, 1;
inner:
  add.u32 %r2, %r1, 1;
  setp.eq.u32 %p, %r2, %r2;
  @%p bra inner;
  bra outer;
}";

#[test]
fn an_endless_loop_is_ended_and_named() {
    let mut case = Case::new(ENDLESS, 96).output(1);
    case.options.limits.instructions = 10_000;
    let stopped = stopped(&case);
    assert_eq!(
        stopped.reason,
        "the launch has executed 10000 warp instructions (`--max-instructions`)"
    );
    let [running] = &stopped.running[..] else { panic!("{stopped}") };
    assert_eq!((running.site.line, running.last.clone()), (10, Some((12, None))));
    assert_eq!(running.warps, "CTA (0,0,0) warps 0 to 2");
}

#[test]
fn a_launch_is_ended_when_its_time_is_over() {
    let mut case = Case::new(ENDLESS, 32).output(1);
    case.options.limits.time = Some(Duration::from_millis(20));
    assert!(stopped(&case).reason.contains("0.02 seconds (`--timeout`)"));
}

/// Every CTA changes something and polls, so that none ever stands still.
const POLLS: &str = ".entry k(.param .u64 out) {
  .reg .b32 %r<3>; .reg .b64 %rd<2>; .reg .pred %p;
  ld.param.u64 %rd1, [out];
  st.volatile.global.u32 [%rd1], 0;
again:
  red.relaxed.gpu.global.add.u32 [%rd1], 2;
  ld.volatile.global.u32 %r1, [%rd1];
  and.b32 %r2, %r1, 1;
  setp.eq.u32 %p, %r2, 0;
  @%p bra again;
}";

#[test]
fn loops_that_poll_are_counted() {
    for threads in [1, 2] {
        let mut case = Case::new(POLLS, 32).output(1).geometry(4, 1, 0);
        case.options.limits.instructions = 100_000;
        case.options.threads = threads;
        case.options.checks = false;
        assert!(stopped(&case).reason.contains("100000 warp instructions"));
    }
}

/// The first CTA polls for what the last one writes; all of them stay.
const MEETS: &str = ".entry k(.param .u64 out) {
  .reg .b32 %r<3>; .reg .b64 %rd<2>; .reg .pred %p;
  .shared .b8 s[65536];
  ld.param.u64 %rd1, [out];
  mov.u32 %r2, s;
again:
  ld.volatile.global.u32 %r1, [%rd1];
  setp.ne.u32 %p, %r1, 1;
  @%p bra again;
}";

#[test]
fn clusters_that_stay_take_memory_up_to_the_limit() {
    let mut case = Case::new(MEETS, 32).zeros(1).geometry(1 << 20, 1, 0);
    case.options.limits.memory = 16 << 20;
    case.options.threads = 1;
    let error = case.run().unwrap_err().to_string();
    assert!(error.starts_with("error: a cluster takes ") && error.contains("16777216"), "{error}");
}

#[test]
fn what_is_known_of_memory_takes_memory() {
    let body = ".entry k(.param .u64 out) {
      .reg .b32 %r<3>; .reg .b64 %rd<4>; .reg .pred %p;
      ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x;
    again:
      mad.wide.u32 %rd2, %r1, 4, %rd1;
      st.global.u32 [%rd2], %r1;
      add.u32 %r1, %r1, 32;
      setp.lt.u32 %p, %r1, 1048576;
      @%p bra again;
    }";
    let mut case = Case::new(body, 32).output(1 << 20);
    case.options.limits.memory = 16 << 20;
    let error = case.run().unwrap_err().to_string();
    assert!(error.starts_with("error: what is known of a cluster takes "), "{error}");
    case.options.checks = false;
    assert!(case.run().is_ok());
}

#[test]
fn directives_that_ptxas_refuses_are_refused() {
    let load = |text: &str| {
        let module = ptx::parse(text).unwrap_or_else(|error| panic!("{error}"));
        let launch = program::Launch {
            kernel: "k".into(),
            grid: [1, 1, 1],
            block: [1, 1, 1],
            cluster: [1, 1, 1],
            shared_bytes: 0,
            args: Vec::new(),
            overlaps_previous: false,
        };
        let program = Program { module: module.into(), buffers: vec![], launches: vec![launch] };
        sixwarp_sim::run(&program, &[], &Options::default()).map(|_| ())
    };
    let text =
        format!("{}.entry k() .maxnreg 32 {{ .shared .align 4 .b8 s[4]; ret; }}", common::HEADER);
    load(&text).unwrap();
    for (right, wrong, message) in [
        ("sm_100a", "sm_99999999999999999999", "not an architecture known here"),
        ("8.7", "99.9", "there is no PTX version 99.9"),
        ("size 64", "size 32", "addresses have 64 bits"),
        (".align 4", ".align 3", "alignment 3 is not a power of two"),
        (".maxnreg 32", ".maxnreg 0", "takes one positive number"),
        (".maxnreg 32", ".maxnerg 32", "kernels have no such directive"),
    ] {
        let error = load(&text.replace(right, wrong)).unwrap_err().to_string();
        assert!(error.contains(message), "{wrong}: {error}");
    }
}
