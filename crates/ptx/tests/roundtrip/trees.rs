//! Random trees, of the shapes the grammar can write down.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use sixwarp_ptx::ast::*;
use sixwarp_ptx::{Module, Symbol};

/// A whole module.
pub fn module() -> impl Strategy<Value = Module> {
    let target = vec(select(&["sm_90a", "sm_100a", "debug"][..]).prop_map(Symbol::new), 1..3);
    ((1..10u32, 0..20u32), target, select(vec![32, 64]), vec(item(), 0..6)).prop_map(
        |(version, target, address_size, items)| Module { version, target, address_size, items },
    )
}

fn symbol() -> impl Strategy<Value = Symbol> {
    let plain = "[A-Za-z$%][A-Za-z0-9_$]{1,8}";
    let special = select(vec!["%tid.x", "%clusterid.y", "$L__BB0_1", "_under", "%v.z"]);
    prop_oneof![4 => plain.prop_map(|s| Symbol::new(&s)), 1 => special.prop_map(Symbol::new)]
        .prop_filter("a keyword of initialisers", |name| *name != "generic")
}

fn label() -> impl Strategy<Value = Symbol> {
    symbol().prop_filter("no dots", |name| !name.as_str().contains('.'))
}

/// Text between quotes.
fn quoted() -> impl Strategy<Value = String> {
    r#"([a-zA-Z0-9 _/.+é-]|\\\\|\\")*"#
}

fn item() -> impl Strategy<Value = Item> {
    let stamp = option::of((any::<u64>(), any::<u64>()));
    let file = (any::<u32>(), quoted(), stamp)
        .prop_map(|(index, path, stamp)| Item::File(File { index, path, stamp }));
    let section = (select(vec![".debug_str", ".debug_info"]), vec(r"\.b8 [0-9a-z_,$:]{1,9}", 0..4))
        .prop_map(|(name, lines)| Item::Section { name: Symbol::new(name), lines });
    prop_oneof![
        4 => function().prop_map(Item::Function),
        2 => variable(Space::Reg).prop_map(Item::Variable),
        1 => file,
        1 => section,
        1 => vec(quoted(), 1..3).prop_map(Item::Pragma),
        1 => (symbol(), symbol()).prop_map(|(a, b)| Item::Alias(a, b)),
    ]
}

fn linkage() -> impl Strategy<Value = Option<Linkage>> {
    use Linkage::*;
    option::of(select(vec![Visible, Extern, Weak, Common]))
}

fn ty() -> impl Strategy<Value = Type> {
    use Type::*;
    select(vec![Pred, B8, B16, B32, B64, B128, U64, S32, F16, F16x2, Bf16x2, F32, F64, F32x2])
}

fn vector() -> impl Strategy<Value = Option<u8>> {
    option::of(select(vec![2, 4, 8]))
}

/// A variable in any memory space, or in `other`.
fn variable(other: Space) -> impl Strategy<Value = Variable> {
    use Space::*;
    let head = (linkage(), select(vec![Global, Shared, Const, Local, Param, other]));
    let layout = (option::of(1..2048u32), vector(), ty());
    let attribute = option::of(select(vec![".managed", ".unified(1,0xAB)"]).prop_map(Symbol::new));
    let pointer = option::of(
        (option::of(select(vec![Global, Shared, Const])), option::of(1..64u32))
            .prop_map(|(space, align)| PointerAttribute { space, align }),
    );
    let extents = vec(option::of(any::<u64>()), 0..3);
    (head, layout, attribute, pointer, symbol(), extents, option::of(initializer())).prop_map(
        |((linkage, space), (align, vector, ty), attribute, pointer, name, extents, init)| {
            Variable { linkage, space, align, attribute, pointer, vector, ty, name, extents, init }
        },
    )
}

fn parameter() -> impl Strategy<Value = Variable> {
    variable(Space::Reg).prop_map(|mut variable| {
        variable.linkage = None;
        variable
    })
}

fn initializer() -> impl Strategy<Value = Initializer> {
    let offset = prop_oneof![Just(0), any::<i64>()];
    let leaf = prop_oneof![
        prop_oneof![number(), symbol().prop_map(Operand::Name)].prop_map(Initializer::Value),
        (symbol(), any::<i64>()).prop_map(|(s, o)| Initializer::Value(Operand::NameOffset(s, o))),
        (symbol(), offset).prop_map(|(name, offset)| Initializer::Generic(name, offset)),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Initializer::List),
            (any::<u64>(), inner).prop_map(|(mask, i)| Initializer::Masked(mask, Box::new(i))),
        ]
    })
}

fn function() -> impl Strategy<Value = Function> {
    let attribute = option::of(Just(FunctionDirective {
        name: Symbol::new("attribute"),
        values: vec![],
        strings: vec![".unified(1,2)".into()],
    }));
    let directives = (attribute, vec(function_directive(), 0..4))
        .prop_map(|(attribute, rest)| attribute.into_iter().chain(rest).collect());
    (
        (linkage(), any::<bool>(), label()),
        (vec(parameter(), 0..2), vec(parameter(), 0..4)),
        directives,
        option::of(vec(statement(), 0..12)),
    )
        .prop_map(|((linkage, entry, name), (returns, params), directives, body)| Function {
            linkage,
            entry,
            returns,
            name,
            params,
            directives,
            body,
        })
}

fn function_directive() -> impl Strategy<Value = FunctionDirective> {
    let names = vec!["maxntid", "reqnctapercluster", "maxnreg", "noreturn", "blocksareclusters"];
    let numbers = (select(names), vec(any::<u64>(), 0..4)).prop_map(|(name, values)| {
        FunctionDirective { name: Symbol::new(name), values, strings: vec![] }
    });
    let pragma = vec(quoted(), 1..3).prop_map(|strings| FunctionDirective {
        name: Symbol::new("pragma"),
        values: vec![],
        strings,
    });
    prop_oneof![3 => numbers, 1 => pragma]
}

fn statement() -> impl Strategy<Value = Statement> {
    let directive = vec("[A-Z][a-z]{0,3}", 1..4)
        .prop_map(|labels| Statement::Directive(format!(".branchtargets {}", labels.join(" , "))));
    let leaf = prop_oneof![
        8 => instruction().prop_map(Statement::Instruction),
        1 => registers().prop_map(Statement::Registers),
        1 => variable(Space::Shared).prop_map(Statement::Variable),
        1 => label().prop_map(Statement::Label),
        1 => loc().prop_map(Statement::Loc),
        1 => vec(quoted(), 1..3).prop_map(Statement::Pragma),
        1 => directive,
    ];
    leaf.prop_recursive(3, 24, 6, |inner| vec(inner, 0..6).prop_map(Statement::Block))
}

fn registers() -> impl Strategy<Value = Registers> {
    (vector(), ty(), vec((label(), option::of(any::<u32>())), 1..4))
        .prop_map(|(vector, ty, names)| Registers { vector, ty, names })
}

fn loc() -> impl Strategy<Value = Loc> {
    let inlined = (label(), any::<i64>(), any::<(u32, u32, u32)>())
        .prop_map(|(function, offset, at)| InlinedAt { function, offset, at });
    (any::<(u32, u32, u32)>(), option::of(inlined))
        .prop_map(|((file, line, column), inlined_at)| Loc { file, line, column, inlined_at })
}

fn instruction() -> impl Strategy<Value = Instruction> {
    let modifier = prop_oneof!["[a-z0-9]{1,6}", "[a-zL]{1,4}[0-9]?::[0-9a-z_]{1,8}(::[a-z]{1,5})?"];
    let guard = option::of(
        (symbol(), any::<bool>()).prop_map(|(register, negated)| Guard { register, negated }),
    );
    (guard, "[a-z][a-z0-9]{1,5}", vec(modifier, 0..6), vec(operand(), 0..5)).prop_map(
        |(guard, opcode, modifiers, operands)| Instruction {
            guard,
            opcode: Symbol::new(&opcode),
            modifiers: modifiers.iter().map(|m| Symbol::new(m)).collect(),
            operands,
            line: Line(0),
        },
    )
}

fn number() -> impl Strategy<Value = Operand> {
    let magnitude = i128::from(u64::MAX);
    prop_oneof![
        (-magnitude..=magnitude, any::<bool>())
            .prop_map(|(value, unsigned)| Operand::Integer { value, unsigned }),
        any::<u32>().prop_map(Operand::F32),
        any::<u64>().prop_map(Operand::F64),
    ]
}

fn address() -> impl Strategy<Value = Address> {
    let base = prop_oneof![
        symbol().prop_map(AddressBase::Name),
        any::<u64>().prop_map(AddressBase::Absolute),
    ];
    let offset = prop_oneof![Just(0), any::<i64>()];
    (base, offset).prop_map(|(base, offset)| Address { base, offset })
}

fn operand() -> impl Strategy<Value = Operand> {
    let half = || prop_oneof![symbol().prop_map(Operand::Name), Just(Operand::Sink)];
    let leaf = prop_oneof![
        6 => symbol().prop_map(Operand::Name),
        2 => number(),
        2 => address().prop_map(Operand::Address),
        1 => (symbol(), any::<i64>()).prop_map(|(name, offset)| Operand::NameOffset(name, offset)),
        1 => symbol().prop_map(Operand::Not),
        1 => Just(Operand::Sink),
        1 => (half(), half()).prop_map(|(a, b)| Operand::Pair(Box::new(a), Box::new(b))),
        1 => quoted().prop_map(Operand::Text),
    ];
    leaf.prop_recursive(2, 16, 8, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..8).prop_map(Operand::Vector),
            vec(inner.clone(), 0..4).prop_map(Operand::List),
            (address(), vec(inner, 1..3)).prop_map(|(a, groups)| Operand::TensorAddress(a, groups)),
        ]
    })
}
