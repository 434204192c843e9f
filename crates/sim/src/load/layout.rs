use ptx::ast::{Linkage, Space, Variable};
use ptx::resolve::{Arg, Base, Body, Owner, Var};
use std::collections::{HashMap, HashSet};

/// The first bytes of shared memory belong to the system on sm_90 and later.
pub const RESERVED_SHARED: u32 = 1024;

/// A kernel parameter's place.
#[derive(Clone, Debug)]
pub struct Parameter {
    /// Name.
    pub name: String,
    /// Byte offset.
    pub offset: u32,
    /// Bytes.
    pub bytes: u32,
}

/// A shared variable's place.
#[derive(Clone, Debug)]
pub struct SharedVariable {
    /// Name.
    pub name: String,
    /// Offset in shared memory.
    pub offset: u32,
}

/// Where a variable lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Param(u32),
    Shared(u32),
    Local(u32),
    Module,
}

/// All variables of a kernel, placed.
pub(super) struct Variables {
    pub(super) places: HashMap<Var, Place>,
    pub(super) params: Vec<Parameter>,
    pub(super) param_bytes: u32,
    pub(super) shared: Vec<SharedVariable>,
    pub(super) dynamic_shared: u32,
    pub(super) local_bytes: u32,
}

/// Bytes of one element and of the whole variable; an open extent counts as 0.
pub(crate) fn size_of(variable: &Variable) -> (u64, u64) {
    let element =
        u64::from(variable.ty.bits().max(8) / 8) * u64::from(variable.vector.unwrap_or(1));
    let count: u64 = variable.extents.iter().map(|e| e.unwrap_or(0)).product();
    (element, element * count)
}

pub(crate) fn align_of(variable: &Variable) -> u64 {
    variable.align.map_or_else(|| size_of(variable).0, u64::from).max(1)
}

/// A region that grows at its end.
struct Region(u64);

impl Region {
    fn take(&mut self, variable: &Variable) -> u32 {
        let at = self.0.next_multiple_of(align_of(variable));
        self.0 = at + size_of(variable).1;
        at as u32
    }
}

impl Variables {
    pub(super) fn place(body: &Body) -> Result<Variables, String> {
        let used = used_variables(body);
        let mut regions =
            Regions { params: Region(0), shared: Region(RESERVED_SHARED.into()), local: Region(0) };
        let mut placed = Variables {
            places: HashMap::new(),
            params: Vec::new(),
            param_bytes: 0,
            shared: Vec::new(),
            dynamic_shared: 0,
            local_bytes: 0,
        };
        let mut dynamic = Vec::new();
        for (index, entry) in body.variables.iter().enumerate() {
            let var = Var(index as u32);
            let parameter = matches!(entry.owner, Owner::Parameter(_));
            if !parameter && !used.contains(&var) {
                continue;
            }
            if is_dynamic(entry.variable) {
                dynamic.push((var, entry.variable));
            } else {
                placed.assign(var, entry.variable, parameter, &mut regions)?;
            }
        }
        placed.param_bytes = regions.params.0 as u32;
        placed.local_bytes = regions.local.0.next_multiple_of(16) as u32;
        placed.place_dynamic(&dynamic, regions.shared.0);
        Ok(placed)
    }

    fn assign(
        &mut self,
        var: Var,
        variable: &Variable,
        parameter: bool,
        regions: &mut Regions,
    ) -> Result<(), String> {
        let name = variable.name.to_string();
        let bytes = size_of(variable).1 as u32;
        let place = match variable.space {
            Space::Param if parameter => {
                let offset = regions.params.take(variable);
                self.params.push(Parameter { name, offset, bytes });
                Place::Param(offset)
            }
            // Parameters of calls live with the thread.
            Space::Param | Space::Local => Place::Local(regions.local.take(variable)),
            Space::Shared => {
                let offset = regions.shared.take(variable);
                self.shared.push(SharedVariable { name, offset });
                Place::Shared(offset)
            }
            Space::Global | Space::Const => Place::Module,
            Space::Reg => return Err(format!("`{name}` is a register declared as a variable")),
        };
        self.places.insert(var, place);
        Ok(())
    }

    /// Every open-ended shared array starts where the static ones end.
    fn place_dynamic(&mut self, dynamic: &[(Var, &Variable)], end: u64) {
        let align = dynamic.iter().map(|(_, v)| align_of(v)).max().unwrap_or(16).max(16);
        self.dynamic_shared = end.next_multiple_of(align) as u32;
        for (var, variable) in dynamic {
            let offset = self.dynamic_shared;
            self.places.insert(*var, Place::Shared(offset));
            self.shared.push(SharedVariable { name: variable.name.to_string(), offset });
        }
    }
}

struct Regions {
    params: Region,
    shared: Region,
    local: Region,
}

fn is_dynamic(variable: &Variable) -> bool {
    let open = variable.extents.iter().any(Option::is_none);
    variable.space == Space::Shared && (open || variable.linkage == Some(Linkage::Extern))
}

fn used_variables(body: &Body) -> HashSet<Var> {
    let mut used = HashSet::new();
    for instruction in &body.instructions {
        instruction.args.iter().for_each(|arg| collect(arg, &mut used));
    }
    used
}

fn collect(arg: &Arg, used: &mut HashSet<Var>) {
    match arg {
        Arg::Variable(var, _)
        | Arg::Address(Base::Variable(var), _)
        | Arg::TensorAddress(Base::Variable(var), ..) => {
            used.insert(*var);
        }
        Arg::Vector(args) | Arg::List(args) => args.iter().for_each(|a| collect(a, used)),
        Arg::Pair(a, b) => {
            collect(a, used);
            collect(b, used);
        }
        _ => {}
    }
}
