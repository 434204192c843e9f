//! The parser: what it reads, and what it says about text it cannot read.

use sixwarp_ptx::ast::*;
use sixwarp_ptx::{Module, Symbol, parse, parse_kernel};

const SYNTAX: &str = include_str!("snippets/syntax.ptx");

fn kernel(body: &str) -> Module {
    let header = ".version 8.7\n.target sm_90a\n.address_size 64\n";
    parse(&format!("{header}.entry k() {{\n{body}\n}}")).unwrap_or_else(|e| panic!("{e}"))
}

fn only_instruction(body: &str) -> Instruction {
    match kernel(body).entry("k").and_then(|f| f.body.clone()).as_deref() {
        Some([Statement::Instruction(instruction)]) => instruction.clone(),
        other => panic!("not one instruction: {other:?}"),
    }
}

fn operands(body: &str) -> Vec<Operand> {
    only_instruction(body).operands
}

fn name(text: &str) -> Operand {
    Operand::Name(Symbol::new(text))
}

#[test]
fn every_construct_survives_the_round_trip() {
    let module = parse(SYNTAX).unwrap_or_else(|e| panic!("{e}"));
    let printed = module.to_string();
    let again = parse(&printed).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(again, module);
    assert_eq!(again.to_string(), printed);
}

#[test]
fn header() {
    let module = parse(SYNTAX).unwrap();
    assert_eq!(module.version, (8, 7));
    assert_eq!(module.target, [Symbol::new("sm_90a"), Symbol::new("debug")]);
    assert_eq!(module.address_size, 64);
    assert_eq!(parse(".version 6.10 .target sm_90").unwrap().version, (6, 10));
}

#[test]
fn instructions_know_their_line() {
    let module = kernel("mov.b32 a, b;\n\n/* \n */ @p\nret;");
    let lines: Vec<u32> = module
        .entry("k")
        .unwrap()
        .body
        .as_ref()
        .unwrap()
        .iter()
        .filter_map(|s| match s {
            Statement::Instruction(i) => Some(i.line.0),
            _ => None,
        })
        .collect();
    assert_eq!(lines, [5, 8]);
}

#[test]
fn a_modifier_with_colons_is_one_symbol() {
    let instruction = only_instruction(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [a], [b], n, [m], p;",
    );
    assert_eq!(instruction.opcode, "cp");
    let modifiers: Vec<_> = instruction.modifiers.iter().map(|m| m.as_str()).collect();
    let expected = [
        "async",
        "bulk",
        "shared::cluster",
        "global",
        "mbarrier::complete_tx::bytes",
        "L2::cache_hint",
    ];
    assert_eq!(modifiers, expected);
}

#[test]
fn modifiers_may_stand_apart_from_the_opcode() {
    assert_eq!(only_instruction("add .s32 a, b, c;"), only_instruction("add.s32 a, b, c;"));
}

#[test]
fn integers_in_every_radix() {
    let int = |value: i128, unsigned| Operand::Integer { value, unsigned };
    for (text, expected) in [
        ("0", int(0, false)),
        ("-1", int(-1, false)),
        ("0x1fU", int(31, true)),
        ("0XFFFFFFFFFFFFFFFF", int(u64::MAX.into(), false)),
        ("017", int(15, false)),
        ("0b101", int(5, false)),
        ("42U", int(42, true)),
        ("-9223372036854775808", int(i64::MIN.into(), false)),
        ("0f3f800000", Operand::f32(1.0)),
        ("-0f3F800000", Operand::f32(-1.0)),
        ("0d3FF0000000000000", Operand::F64(1f64.to_bits())),
        ("1.5", Operand::F64(1.5f64.to_bits())),
        ("-2.5e-3", Operand::F64((-2.5e-3f64).to_bits())),
        ("1E+2", Operand::F64(100f64.to_bits())),
    ] {
        assert_eq!(operands(&format!("mov.b64 a, {text};"))[1], expected, "{text}");
    }
}

#[test]
fn addresses() {
    let address =
        |base, offset| Operand::Address(Address { base: AddressBase::Name(base), offset });
    let a = Symbol::new("a");
    assert_eq!(operands("f [a];"), [address(a, 0)]);
    assert_eq!(operands("f [a+-16];"), [address(a, -16)]);
    assert_eq!(operands("f [a - 0x10];"), [address(a, -16)]);
    let absolute = Address { base: AddressBase::Absolute(64), offset: 8 };
    assert_eq!(operands("f [64+8];"), [Operand::Address(absolute)]);
    let base = Address { base: AddressBase::Name(a), offset: 0 };
    let groups = vec![Operand::Vector(vec![name("x"), Operand::int(1)]), name("y")];
    assert_eq!(operands("f [a, {x, 1}, y];"), [Operand::TensorAddress(base, groups)]);
}

#[test]
fn long_register_lists() {
    let list: Vec<String> = (0..256).map(|i| format!("%r{i}")).collect();
    let vector = &operands(&format!("f {{{}}};", list.join(", ")))[0];
    assert!(matches!(vector, Operand::Vector(elements) if elements.len() == 256));
}

#[test]
fn errors_show_the_line_and_a_caret() {
    let source = ".version 8.7\n.target sm_90a\n.entry k()\n{\n\tadd.s32 %r1 %r2;\n}";
    let error = parse(source).unwrap_err();
    let expected =
        "5:14: expected `,` or `;`, found `%r2`\n  |\n5 | \tadd.s32 %r1 %r2;\n  | \t            ^";
    assert_eq!(error.to_string(), expected);
    assert_eq!((error.line(), error.column()), (5, 14));
}

#[test]
fn each_mistake_is_named() {
    for (body, message) in [
        ("add.s32 a, ;", "expected an operand, found `;`"),
        ("mov.b32 a, 0f12;", "expected `0f` with 8 hexadecimal digits, found `0f12`"),
        ("mov.b32 a, 09;", "expected an integer, found `09`"),
        (
            "mov.b64 a, 0x10000000000000000;",
            "expected an integer of at most 64 bits, found `0x10000000000000000`",
        ),
        ("ld.b32 a, [b+c];", "expected a byte offset, found `c`"),
        (
            "ld.b32 a, [b+0x8000000000000000];",
            "expected a byte offset of 64 bits, found 9223372036854775808",
        ),
        ("ld.b32 a, [b;", "expected `+`, `,` or `]`, found `;`"),
        ("mov.b64 {a, b;", "expected `,` or `}`, found `;`"),
        ("@ ;", "expected a predicate register, found `;`"),
        ("@p ;", "expected an instruction, found `;`"),
        (".reg .b33 x;", "expected a register type such as `.b32`, found `.b33`"),
        (".reg .b32 x<;", "expected a register count, found `;`"),
        (".loc 1 2;", "expected a column, found `;`"),
        (".pragma nounroll;", "expected a pragma in quotes, found `nounroll`"),
        (".pragma \"x;", "expected a pragma in quotes, found a string without its closing quote"),
        ("mov.b32 a, %;", "expected an operand, found a `%` without a name"),
        ("é", "a character that PTX does not use"),
        ("/* ret;", "a comment without its `*/`"),
        ("", "found the end of the text"),
    ] {
        let error = parse(&format!(".version 8.7\n.target sm_90a\n.entry k() {{\n{body}\n"))
            .expect_err(body);
        assert!(error.message().contains(message), "{body}: {error}");
    }
}

#[test]
fn nesting_is_bounded() {
    for open in ["{", "f {", "f (", "f [a, {"] {
        let (first, again) = open.split_at(open.len() - 1);
        let text = format!(".version 8.7 .target sm_90 .entry k {{ {first}{}", again.repeat(1000));
        let error = parse(&text).unwrap_err();
        assert!(error.message().contains("nested deeper than 128 levels"), "{error}");
    }
    let lists = format!(".version 8.7 .target sm_90 .global .b8 x = {}", "{".repeat(1000));
    assert!(parse(&lists).unwrap_err().message().contains("nested deeper"));
}

/// Two kernels, what the first one reaches, and what it does not.
const LIBRARY: &str = ".version 8.7
.target sm_90a
.address_size 64
.func called_by_called() { ret; }
.func called() { call called_by_called; /* } */ ret; }
.func aliased() { ret; }
.func another_name();
.alias another_name, aliased;
.func stored() { ret; }
.global .u64 table[1] = {stored};
.func of_nobody() { bra }
.visible .entry first()
.maxntid 32
{
    .pragma \"} {\"; // }
    { call called; }
    ret;
}
.visible .entry second() { no PTX at all }
";

#[test]
fn a_kernel_is_read_with_what_it_reaches() {
    let module = parse_kernel(LIBRARY, Some("first")).unwrap();
    let read = |name: &str| {
        let function = module.functions().filter(|f| f.name == *name).last();
        function.is_some_and(|function| function.body.is_some())
    };
    for name in ["first", "called", "called_by_called", "aliased", "stored"] {
        assert!(read(name), "{name}");
    }
    assert!(!read("second") && !read("of_nobody"));
    // What is read is what the whole text says, at the same lines.
    let rest = LIBRARY.replace("bra }", "}").replace("no PTX at all", "");
    let whole = parse(&rest).unwrap();
    for function in module.functions().filter(|f| f.body.is_some()) {
        let same = whole.functions().filter(|f| f.name == function.name).last().unwrap();
        assert_eq!(function, same);
    }
    let body = module.entry("first").and_then(|f| f.body.as_deref()).unwrap();
    assert!(matches!(&body[2], Statement::Instruction(i) if i.line.0 == 17), "{body:?}");
}

#[test]
fn a_body_without_its_end_is_told_where_it_starts() {
    let error = parse_kernel(&LIBRARY.replace("at all }", "at all"), Some("first")).unwrap_err();
    assert_eq!(
        (error.line(), error.message()),
        (19, "expected `}` for this brace, found the end of the text")
    );
}
