//! Block-scoped names to dense numbers.

use sixwarp_ptx::ast::Type;
use sixwarp_ptx::resolve::*;
use sixwarp_ptx::{Module, Symbol, parse};

fn module(body: &str) -> Module {
    let text = format!(
        ".version 8.7 .target sm_90a .address_size 64
        .extern .shared .align 16 .b8 smem[];
        .extern .func vprintf(.param .b64 a);
        .entry k(.param .u64 p0, .param .u64 p1) {{\n{body}\n}}"
    );
    parse(&text).unwrap_or_else(|e| panic!("{e}"))
}

fn with_body<T>(text: &str, check: impl FnOnce(Body) -> T) -> T {
    let module = module(text);
    check(resolve(&module, module.entry("k").unwrap()).unwrap_or_else(|e| panic!("{e}")))
}

fn error(text: &str) -> String {
    let module = module(text);
    resolve(&module, module.entry("k").unwrap()).unwrap_err().to_string()
}

#[test]
fn registers_are_numbered_at_first_use() {
    with_body(".reg .b32 %r<400>; .reg .f32 x; mov.b32 %r9, %r0; mov.b32 x, %r9;", |body| {
        let table: Vec<_> = body.registers.iter().map(|r| (r.name.as_str(), r.ty)).collect();
        assert_eq!(table, [("%r9", Type::B32), ("%r0", Type::B32), ("x", Type::F32)]);
        assert_eq!(body.instructions[1].args, [Arg::Reg(Reg(2)), Arg::Reg(Reg(0))]);
    });
}

#[test]
fn sibling_blocks_have_their_own_registers_and_labels() {
    let block = "{ .reg .pred P1; WAIT: setp.eq.u32 P1, %r1, 0; @P1 bra WAIT; }";
    with_body(&format!(".reg .b32 %r<2>; {block} {block}"), |body| {
        assert_eq!(body.registers.len(), 3);
        let (first, second) = (&body.instructions[1], &body.instructions[3]);
        assert_eq!((&first.args[0], &second.args[0]), (&Arg::Label(0), &Arg::Label(2)));
        assert_ne!(first.guard, second.guard);
    });
}

#[test]
fn inner_names_shadow_outer_ones() {
    with_body(".reg .b32 x; { .reg .b64 x; mov.b64 x, 0; } mov.b32 x, 0;", |body| {
        let types: Vec<_> = body.registers.iter().map(|r| r.ty).collect();
        assert_eq!(types, [Type::B64, Type::B32]);
    });
}

#[test]
fn labels_are_forward_references_too() {
    with_body("bra END; ret; END:", |body| {
        assert_eq!(body.instructions[0].args, [Arg::Label(2)]);
        assert_eq!(body.instructions.len(), 2);
    });
}

#[test]
fn branch_tables() {
    with_body(".reg .b32 i; A: T: .branchtargets A, B; brx.idx i, T; B: ret;", |body| {
        assert_eq!(body.instructions[0].args[1], Arg::BranchTargets(vec![0, 1]));
    });
}

#[test]
fn variables_special_registers_and_functions() {
    let text = ".reg .b32 a; .shared .b64 bar; mov.b32 a, smem+8; mov.b32 a, %tid.x; \
        mov.b32 a, %laneid; mov.b32 a, WARP_SZ; ld.param.b32 a, [p1+4]; st.shared.b64 [bar], a; \
        call vprintf, (p0);";
    with_body(text, |body| {
        let owners: Vec<_> = body.variables.iter().map(|v| v.owner).collect();
        use Owner::*;
        assert_eq!(owners, [Parameter(0), Parameter(1), Module, Body]);
        let arg = |i: usize, j: usize| body.instructions[i].args[j].clone();
        assert_eq!(arg(0, 1), Arg::Variable(Var(2), 8));
        assert_eq!(arg(1, 1), Arg::Special(Symbol::new("%tid.x")));
        assert_eq!(arg(3, 1), Arg::Special(Symbol::new("WARP_SZ")));
        assert_eq!(arg(4, 1), Arg::Address(Base::Variable(Var(1)), 4));
        assert_eq!(arg(5, 0), Arg::Address(Base::Variable(Var(3)), 0));
        assert_eq!(arg(6, 0), Arg::Function(Symbol::new("vprintf")));
    });
}

#[test]
fn vector_registers_are_their_elements() {
    with_body(".reg .v2 .f32 %v<3>; mov.b64 %v1, 0; mov.f32 %v1.y, 0f00000000;", |body| {
        assert_eq!(
            body.instructions[0].args[0],
            Arg::Vector(vec![Arg::Reg(Reg(0)), Arg::Reg(Reg(1))])
        );
        assert_eq!(body.instructions[1].args[0], Arg::Reg(Reg(1)));
    });
}

#[test]
fn locations_follow_the_instructions() {
    with_body("ret; .loc 1 5 0 ret; { .loc 1 6 0 ret; } ret;", |body| {
        let lines: Vec<_> = body.instructions.iter().map(|i| i.loc.map(|l| l.line)).collect();
        assert_eq!(lines, [None, Some(5), Some(6), Some(6)]);
    });
}

#[test]
fn each_wrong_name_is_named() {
    for (text, message) in [
        ("mov.b32 %r1, 0;", "`%r1` is not declared (line 5)"),
        (".reg .b32 %r<2>; mov.b32 %r2, 0;", "`%r2` is not declared (line 5)"),
        (".reg .b32 %r<2>; mov.b32 %r01, 0;", "`%r01` is not declared (line 5)"),
        (".reg .b32 a; .reg .b64 a;", "`a` is declared twice in one block"),
        ("bra L;", "`L` is not declared (line 5)"),
        ("{ L: ret; } bra L;", "`L` is not declared (line 5)"),
        ("L: @L ret;", "`L` is not a register (line 5)"),
        (
            "L: ld.b32 _, [L];",
            "`L` is neither a register nor a variable, and is used as address (line 5)",
        ),
        (
            ".reg .b32 a; mov.b32 a, a+4;",
            "`a` is neither a register nor a variable, and is used as address (line 5)",
        ),
        (".reg .b32 a; T: .branchtargets a; brx.idx a, T;", "`a` is not a label (line 5)"),
    ] {
        assert_eq!(error(text), message, "{text}");
    }
}
