//! Every rule of `Program::check` is broken once.

use ptx::Module;
use sixwarp_program::{
    Access, Argument, Buffer, BufferId, ElementType, L2Promotion, Launch, OobFill, Pointer,
    Program, Rule, Swizzle, TensorMap,
};
use std::sync::Arc;

/// A kernel of 384 threads with 1 KiB of static shared memory; `directives` go beside `.maxntid`.
fn module(target: &str, directives: &str, keys: &str) -> Arc<Module> {
    let text = format!(
        ".version 8.0\n.target {target}\n.address_size 64\n\
         .visible .entry attend(.param .u64 out, .param .align 64 .b8 {keys},\n\
         .param .f32 scale, .param .u32 tokens)\n.maxntid 384 {directives}\n{{\n\
         .shared .align 8 .b8 barriers[1024];\nret;\n}}\n"
    );
    Arc::new(ptx::parse(&text).unwrap())
}

fn hopper() -> Arc<Module> {
    module("sm_90a", "", "keys[128]")
}

fn keys() -> TensorMap {
    TensorMap {
        buffer: BufferId(1),
        offset: 0,
        element: ElementType::Bf16,
        dims: vec![64, 512],
        strides: vec![128],
        box_dims: vec![64, 128],
        element_strides: vec![1, 1],
        im2col: None,
        swizzle: Swizzle::B128,
        oob_fill: OobFill::Zero,
        l2_promotion: L2Promotion::None,
    }
}

fn buffer(name: &str, bytes: u64, access: Access) -> Buffer {
    Buffer::new(name, bytes, 16, access)
}

fn program() -> Program {
    let launch = Launch {
        kernel: "attend".into(),
        grid: [16, 2, 1],
        block: [384, 1, 1],
        cluster: [2, 1, 1],
        shared_bytes: 227 * 1024 - 1024,
        args: vec![
            Argument::Buffer(BufferId(0), 64),
            Argument::TensorMap(keys()),
            Argument::F32(0.125),
            Argument::U32(512),
        ],
        overlaps_previous: false,
    };
    let buffers =
        vec![buffer("out", 4096, Access::Write), buffer("keys", 64 * 512 * 2, Access::Read)];
    Program { module: hopper(), buffers, launches: vec![launch] }
}

fn broken(change: impl FnOnce(&mut Program)) -> Vec<Rule> {
    let mut program = program();
    change(&mut program);
    program.check().err().unwrap_or_default().iter().map(|violation| violation.rule).collect()
}

fn in_launch(change: impl FnOnce(&mut Launch)) -> Vec<Rule> {
    broken(|program| change(&mut program.launches[0]))
}

fn with_map(change: impl FnOnce(&mut TensorMap)) -> Vec<Rule> {
    let mut map = keys();
    change(&mut map);
    in_launch(|launch| launch.args[1] = Argument::TensorMap(map))
}

#[test]
fn a_right_program_passes_at_the_limit_of_shared_memory() {
    assert_eq!(program().check(), Ok(vec![]));
}

#[test]
fn geometry_is_held_to_the_architecture() {
    assert_eq!(broken(|p| p.module = module("sm_42", "", "keys[128]")), [Rule::L(1)]);
    assert_eq!(in_launch(|l| l.kernel = "attention".into()), [Rule::L(2)]);
    assert_eq!(in_launch(|l| l.grid = [16, 65536, 1]), [Rule::L(3)]);
    assert_eq!(in_launch(|l| l.grid[2] = 0), [Rule::L(3)]);
    assert_eq!(in_launch(|l| l.block = [2, 1, 65]), [Rule::L(4)]);
    assert_eq!(in_launch(|l| l.block = [1025, 1, 1]), [Rule::L(4), Rule::L(5)]);
    assert_eq!(in_launch(|l| l.block = [385, 1, 1]), [Rule::L(5)]);
    assert_eq!(in_launch(|l| l.cluster = [3, 1, 1]), [Rule::L(6)]);
    assert_eq!(in_launch(|l| l.cluster = [16, 2, 1]), [Rule::L(6)]);
    assert_eq!(in_launch(|l| l.shared_bytes += 1), [Rule::L(8)]);
}

#[test]
fn what_needs_hopper_is_refused_before_it() {
    let on_ampere = |change: fn(&mut Launch)| {
        broken(|program| {
            program.module = module("sm_80", "", "keys[128]");
            program.launches[0].shared_bytes = 0;
            change(&mut program.launches[0]);
        })
    };
    assert_eq!(on_ampere(|_| ()), [Rule::L(6)]);
    assert_eq!(on_ampere(|l| l.cluster = [1; 3]), []);
    assert_eq!(on_ampere(|l| (l.cluster, l.overlaps_previous) = ([1; 3], true)), [Rule::L(14)]);
}

#[test]
fn a_required_shape_must_be_the_launched_one() {
    let required =
        |directive| broken(|program| program.module = module("sm_90a", directive, "keys[128]"));
    assert_eq!(required(".reqntid 384"), []);
    assert_eq!(required(".reqntid 192, 2"), [Rule::L(5)]);
    assert_eq!(required(".reqnctapercluster 2"), []);
    assert_eq!(required(".reqnctapercluster 1, 2"), [Rule::L(7)]);
    assert_eq!(required(".maxclusterrank 1"), [Rule::L(7)]);
}

#[test]
fn arguments_match_parameters() {
    assert_eq!(in_launch(|l| l.args.truncate(3)), [Rule::L(9)]);
    assert_eq!(in_launch(|l| l.args[3] = Argument::F32(1.0)), [Rule::L(10)]);
    assert_eq!(in_launch(|l| l.args[2] = Argument::U32(1)), [Rule::L(10)]);
    assert_eq!(in_launch(|l| l.args[0] = Argument::U32(1)), [Rule::L(10)]);
    assert_eq!(in_launch(|l| l.args[1] = Argument::U64(1)), [Rule::L(10)]);
    assert_eq!(in_launch(|l| l.args[0] = Argument::Buffer(BufferId(2), 0)), [Rule::L(11)]);
    assert_eq!(in_launch(|l| l.args[0] = Argument::Buffer(BufferId(0), 4097)), [Rule::L(11)]);
}

#[test]
fn tensor_maps_need_aligned_parameters() {
    let text = hopper().to_string().replace(".param .align 64", ".param .align 32");
    let rules = broken(|program| program.module = Arc::new(ptx::parse(&text).unwrap()));
    assert_eq!(rules, [Rule::L(10)]);
}

#[test]
fn tensor_maps_lie_inside_aligned_buffers() {
    assert_eq!(with_map(|m| m.box_dims[0] = 128), [Rule::T(9)]);
    assert_eq!(with_map(|m| m.dims[1] = 513), [Rule::L(12)]);
    assert_eq!(with_map(|m| m.offset = 16), [Rule::L(12)]);
    assert_eq!(with_map(|m| m.swizzle = Swizzle::B128Atom32), [Rule::L(12)]);
    assert_eq!(broken(|p| p.buffers[1].align = 8), [Rule::L(12)]);
}

/// The module of [`program`] with a shared array of its own, and a kernel `other` that names it.
fn with_array(kib: u64, attend: &str) -> Arc<Module> {
    let array = format!(".shared .b8 array[{}];\n.visible .entry attend", kib << 10);
    let text = hopper().to_string().replace(".visible .entry attend", &array);
    let named = "{ .reg .b32 %r; mov.u32 %r, array; ret; }";
    let text = text.replacen("ret;", &format!("{attend} ret;"), 1);
    Arc::new(ptx::parse(&format!("{text}.visible .entry other() {named}\n")).unwrap())
}

#[test]
fn a_module_s_shared_memory_counts_where_it_is_named() {
    let broken_by = |kib, attend| broken(|program| program.module = with_array(kib, attend));
    assert_eq!(broken_by(64, ""), []);
    assert_eq!(broken_by(64, "{ .reg .b32 %r; mov.u32 %r, array; }"), [Rule::L(8)]);
    assert_eq!(broken_by(64, "{ .reg .b32 %r; mov.u32 %r, array+4; }"), [Rule::L(8)]);
    assert_eq!(broken_by(64, "st.shared.b32 [array+8], 0;"), [Rule::L(8)]);
    assert_eq!(broken_by(0, "st.shared.b32 [array+8], 0;"), []);
    let alone = broken(|program| {
        program.module = with_array(228, "");
        program.launches[0].kernel = "other".into();
        program.launches[0].args.clear();
        program.launches[0].shared_bytes = 0;
    });
    assert_eq!(alone, [Rule::L(8)]);
}

fn at(offset: u64, buffer: usize) -> Pointer {
    Pointer { offset, buffer: BufferId(buffer), addend: -16 }
}

/// The program with its arguments as the bytes that a capture of its launch would have.
fn captured(change: impl FnOnce(&mut Launch)) -> Vec<Rule> {
    in_launch(|launch| {
        let bytes = |n: usize| Argument::Bytes(vec![0; n], vec![]);
        let (out, map) = (Argument::Bytes(vec![0; 8], vec![at(0, 0)]), vec![at(0, 1), at(120, 0)]);
        launch.args = vec![out, Argument::Bytes(vec![0; 128], map), bytes(4), bytes(4)];
        change(launch);
    })
}

#[test]
fn arguments_as_bytes_keep_the_same_rules() {
    assert_eq!(captured(|_| ()), []);
    assert_eq!(captured(|l| l.kernel = "attention".into()), [Rule::L(2)]);
    assert_eq!(captured(|l| l.block = [385, 1, 1]), [Rule::L(5)]);
    assert_eq!(captured(|l| l.shared_bytes += 1), [Rule::L(8)]);
    assert_eq!(captured(|l| l.args.truncate(3)), [Rule::L(9)]);
    for wrong in [0, 3, 5, 8] {
        let bytes = Argument::Bytes(vec![0; wrong], vec![]);
        assert_eq!(captured(|l| l.args[3] = bytes), [Rule::L(10)]);
    }
    for pointer in [at(1, 0), at(u64::MAX, 0), at(0, 2)] {
        let bytes = Argument::Bytes(vec![0; 8], vec![pointer]);
        assert_eq!(captured(|l| l.args[0] = bytes), [Rule::L(16)]);
    }
    let short = Argument::Bytes(vec![0; 4], vec![at(0, 0)]);
    assert_eq!(captured(|l| l.args[2] = short), [Rule::L(16)]);
}

#[test]
fn addresses_in_a_buffer_lie_inside_and_are_of_buffers() {
    let with = |pointer| broken(|p| p.buffers[0].pointers = vec![at(0, 1), pointer]);
    assert_eq!(with(at(4088, 0)), []);
    for wrong in [at(4089, 0), at(u64::MAX, 0), at(8, 2), at(8, usize::MAX)] {
        assert_eq!(with(wrong), [Rule::L(16)]);
    }
    assert_eq!(with(at(4096, 2)), [Rule::L(16), Rule::L(16)]);
    let mut program = program();
    program.buffers[1].pointers = vec![at(65529, 0)];
    assert_eq!(
        program.check().unwrap_err()[0].to_string(),
        "buffer `keys`: address 0 takes 8 bytes from byte 65529 on, of 65536 (rule L16)"
    );
}

#[test]
fn an_address_is_written_where_it_stands() {
    let mut bytes = vec![0xFF; 24];
    at(8, 0).write(&mut bytes, 0x1000);
    assert_eq!(bytes[8..16], 0xFF0u64.to_le_bytes());
    assert!(bytes[..8].iter().chain(&bytes[16..]).all(|byte| *byte == 0xFF));
}

#[test]
fn sizes_that_no_number_holds_are_refused() {
    let huge = "keys[18446744073709551615]";
    assert_eq!(
        broken(|p| p.module = module("sm_90a", ".reqntid 4294967295, 4294967295, 4294967295", huge)),
        [Rule::L(5), Rule::L(13), Rule::L(10)]
    );
}

#[test]
fn a_kernel_that_is_missing_is_told_from_those_there_are() {
    let mut program = program();
    program.launches[0].kernel = "attention".into();
    assert_eq!(
        program.check().unwrap_err()[0].to_string(),
        "launch 0: `attention`: the module has no such kernel; it has: attend (rule L2)"
    );
}

#[test]
fn buffers_are_told_apart() {
    assert_eq!(broken(|p| p.buffers[1].name = "out".into()), [Rule::L(15)]);
    assert_eq!(broken(|p| p.buffers[0].align = 24), [Rule::L(15)]);
}

#[test]
fn parameters_are_bounded() {
    let rules = broken(|program| program.module = module("sm_90a", "", "keys[32696]"));
    assert_eq!(rules, [Rule::L(13), Rule::L(10)]);
}

#[test]
fn a_violation_says_where_and_why() {
    let mut program = program();
    program.launches[0].args[3] = Argument::F32(1.0);
    let violations = program.check().unwrap_err();
    assert_eq!(
        violations[0].to_string(),
        "launch 0 (`attend`): argument 3 (`tokens`): needs a `.f32` or `.b32` parameter, \
         this is `.param .u32 tokens` (rule L10)"
    );
}

#[test]
fn a_cluster_that_not_every_device_takes_is_a_warning() {
    let mut program = program();
    program.launches[0].cluster = [16, 1, 1];
    let warnings = program.check().unwrap();
    assert_eq!(warnings.len(), 1);
    assert_eq!(warnings[0].rule, Rule::L(6));
}

#[test]
fn a_program_prints_as_a_summary() {
    let expected = "\
program for sm_90a, PTX 8.0
  out   write              4096 B  align 16
  keys  read              65536 B  align 16
  0: attend: grid 16×2×1, 384 threads, cluster 2×1×1, 231424 B shared
      0  &out + 64
      1  tensor map &keys: Bf16 [64, 512] strides [128] B, box [64, 128], swizzle B128
      2  0.125
      3  512
";
    assert_eq!(program().to_string(), expected);
    let mut program = program();
    program.buffers[0].pointers = vec![at(8, 1)];
    program.launches[0].args[3] = Argument::Bytes(vec![0; 16], vec![at(0, 0)]);
    let captured = expected
        .replace("4096 B  align 16", "4096 B  align 16, at 8 &keys -16")
        .replace("  3  512", "  3  16 bytes, at 0 &out -16");
    assert_eq!(program.to_string(), captured);
}
