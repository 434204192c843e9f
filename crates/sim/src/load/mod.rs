//! Loading: a PTX kernel to a dense array of decoded instructions.
//!
//! Names become register rows, labels become instruction indices, variables get addresses.
//! An instruction that is not known here is [`Unsupported`] with its line; nothing is skipped.

mod call;
mod constant;
mod layout;
mod operand;
mod pointer;
mod undefined;
mod watched;

pub use constant::{Fill, Special};
pub use layout::{RESERVED_SHARED, SHARED_SCRATCH, SharedVariable};
pub(crate) use layout::{align_of, extents_of, size_of};
pub(crate) use operand::{holding, kind, modifiers, same_count, told};
pub(crate) use pointer::address as function_address;
pub(crate) use undefined::rows;

use crate::error::{Error, Unsupported};
use crate::instruction::{Control, Flow, Inst, LaunchControl, Op, Pc};
use crate::register::{P, R32, R64, Reg};
use crate::timing::{self, Cost};
use call::Functions;
use constant::Constants;
use layout::Variables;
use ptx::Symbol;
use ptx::ast::{Function, Item, Module, Type};
use ptx::resolve::{Arg, Body, Resolved};
use std::collections::HashMap;

/// A kernel ready to run.
pub struct Kernel {
    /// Name.
    pub name: String,
    /// Instructions.
    pub code: Vec<Inst>,
    /// Per PTX instruction: its text, line and Rust or C++ source position.
    pub sources: Vec<Source>,
    /// Sizes of the register files.
    pub frame: Frame,
    /// Rows to fill when a warp starts.
    pub fills: Vec<Fill>,
    /// Where each kernel parameter begins.
    pub params: Vec<u32>,
    /// Bytes of all parameters.
    pub param_bytes: u32,
    /// Shared variables, for messages.
    pub shared: Vec<SharedVariable>,
    /// Whether it asks for the memory in which the CTAs of a cooperative launch meet.
    pub has_grid_workspace: bool,
    /// First byte of shared memory that the kernel may touch.
    pub first_shared: u32,
    /// Offset behind the static shared variables; dynamic shared memory starts there.
    pub dynamic_shared: u32,
    /// Bytes of local memory per thread.
    pub local_bytes: u32,
    /// Module variables this kernel uses: name and the row that takes their address.
    pub globals: Vec<(String, R64)>,
    /// The carry flag.
    pub carry: P,
    /// Registers that may be read before they are written, and their names.
    pub undefined: Vec<(Reg, Symbol)>,
    /// What the chip it is for allows a launch.
    pub chip: program::Limits,
    /// Registers of a thread at launch, if its directives say.
    pub registers_at_launch: Option<u32>,
    /// Whether its clusters may take over the work of others (`clusterlaunchcontrol.try_cancel`).
    pub cancels_clusters: bool,
    /// Whether one of its clusters can learn what another one did, or when.
    pub clusters_communicate: bool,
}

/// Where an instruction was read.
#[derive(Clone, Debug)]
pub struct Source {
    /// The instruction.
    pub text: String,
    /// PTX line, 0 if unknown.
    pub line: u32,
    /// File and line of `.loc`.
    pub loc: Option<(String, u32)>,
}

/// Rows per register file.
#[derive(Clone, Copy, Debug, Default)]
pub struct Frame {
    /// 32-bit rows.
    pub r32: u32,
    /// 64-bit rows.
    pub r64: u32,
    /// Predicates.
    pub p: u32,
}

impl Frame {
    pub(crate) fn new32(&mut self) -> R32 {
        self.r32 += 1;
        R32(self.r32 - 1)
    }

    pub(crate) fn new64(&mut self) -> R64 {
        self.r64 += 1;
        R64(self.r64 - 1)
    }

    pub(crate) fn new_p(&mut self) -> P {
        self.p += 1;
        P(self.p - 1)
    }

    pub(crate) fn new_reg(&mut self, ty: Type) -> Reg {
        match ty.bits() {
            1 => Reg::P(self.new_p()),
            64 => Reg::R64(self.new64()),
            128 => {
                let low = self.new64();
                self.new64();
                Reg::R128(low)
            }
            _ => Reg::R32(self.new32()),
        }
    }
}

/// Why decoding stopped: the reason goes into [`Unsupported`].
pub(crate) type Decoded<T> = Result<T, String>;

pub(crate) struct Loader<'m> {
    pub(crate) functions: &'m Functions<'m>,
    /// The functions of the module whose address is taken, by number.
    pub(crate) taken: Vec<Option<Symbol>>,
    pub(crate) module: &'m Module,
    pub(crate) chip: program::Limits,
    pub(crate) files: Vec<(u32, String)>,
    /// The function being decoded, the rows of its registers, and its branches whose targets are
    /// PTX instruction numbers still.
    pub(crate) body: &'m Body<'m>,
    pub(crate) registers: Vec<Reg>,
    pub(crate) branches: Vec<usize>,
    /// Functions being inlined, the outermost first, and the registers of those seen so far.
    pub(crate) calls: Vec<Symbol>,
    pub(crate) called_registers: HashMap<Symbol, Vec<Reg>>,
    pub(crate) sources: Vec<Source>,
    pub(crate) first_sources: HashMap<Symbol, usize>,
    pub(crate) frame: Frame,
    pub(crate) constants: Constants,
    pub(crate) variables: Variables,
    pub(crate) code: Vec<Inst>,
    /// The carry flag of `add.cc` and its readers.
    pub(crate) carry: P,
    pub(crate) source: u32,
    /// A comparison or shift that the assembler may make one instruction with a later one.
    pub(crate) joinable: Option<&'m ptx::ast::Instruction>,
}

/// Decodes the kernel called `name`.
pub fn load(module: &Module, name: &str) -> Result<Kernel, Error> {
    let function = module.entry(name).ok_or_else(|| no_such_kernel(module, name))?;
    let chip = chip(module)?;
    let body = ptx::resolve::resolve(module, function).map_err(|e| Error::Load(e.to_string()))?;
    let functions = call::reachable(module, &body)?;
    let mut called: Vec<&Body> = functions.values().collect();
    called.sort_by_key(|body| body.function.name.as_str());
    let variables = Variables::place(&body, &called, &chip).map_err(Error::Load)?;
    let bodies = std::iter::once(&body).chain(called.iter().copied());
    let declared = ptx::verify_declarations(module, bodies.map(|body| body.function));
    if let Some(violation) = declared.first() {
        return Err(Error::Load(violation.to_string()));
    }
    let mut frame = Frame::default();
    let registers = body.registers.iter().map(|r| frame.new_reg(r.ty)).collect();
    let carry = frame.new_p();
    let mut loader = Loader {
        functions: &functions,
        taken: pointer::taken(module),
        module,
        chip,
        files: files(module),
        body: &body,
        registers,
        branches: Vec::new(),
        calls: Vec::new(),
        called_registers: HashMap::new(),
        sources: Vec::new(),
        first_sources: HashMap::new(),
        frame,
        constants: Constants::default(),
        variables,
        code: Vec::new(),
        carry,
        source: 0,
        joinable: None,
    };
    loader.instructions()?;
    loader.source = loader.sources.len() as u32;
    loader.emit_unguarded(Op::Control(Control::Exit));
    loader.mark_watched_registers();
    let undefined = loader.find_undefined();
    Ok(loader.finish(function, undefined))
}

/// What the chip that a module is for allows.
fn chip(module: &Module) -> Result<program::Limits, Error> {
    let target = module.target.first().map_or("", |target| target.as_str());
    program::Limits::of(target)
        .ok_or_else(|| Error::Load(format!("`.target {target}`: not an architecture known here")))
}

fn no_such_kernel(module: &Module, name: &str) -> Error {
    let names: Vec<_> = module.functions().filter(|f| f.entry).map(|f| f.name.as_str()).collect();
    Error::Load(format!("no kernel `{name}` in the module; it has: {}", names.join(", ")))
}

impl<'m> Loader<'m> {
    /// Decodes the current function behind what is decoded already.
    fn instructions(&mut self) -> Result<(), Error> {
        let mut starts = Vec::with_capacity(self.body.instructions.len() + 1);
        let body = self.body;
        let first_source = self.add_sources();
        for (i, resolved) in body.instructions.iter().enumerate() {
            starts.push(self.code.len() as Pc);
            self.source = (first_source + i) as u32;
            self.check_guard(resolved)?;
            if let Some(callee) = self.callee(resolved) {
                self.inline(resolved, callee)?;
                continue;
            }
            if let Some(at) = pointer::pointer(resolved) {
                self.call_through(resolved, at)?;
                continue;
            }
            self.instruction(resolved).map_err(|reason| Unsupported {
                instruction: resolved.instruction.to_string(),
                line: resolved.instruction.line.0,
                reason,
            })?;
        }
        starts.push(self.code.len() as Pc);
        self.patch_targets(&starts);
        Ok(())
    }

    /// The texts of the current function's instructions; the number of the first. A function that is inlined
    /// several times has them once.
    fn add_sources(&mut self) -> usize {
        let first = self.sources.len();
        let known = *self.first_sources.entry(self.body.function.name).or_insert(first);
        if known != first {
            return known;
        }
        let files = &self.files;
        let loc = |i: &Resolved| {
            i.loc.map(|loc| {
                let file = files.iter().find(|(index, _)| *index == loc.file);
                (file.map_or_else(|| format!("file {}", loc.file), |f| f.1.clone()), loc.line)
            })
        };
        self.sources.extend(self.body.instructions.iter().map(|i| Source {
            text: i.instruction.to_string(),
            line: i.instruction.line.0,
            loc: loc(i),
        }));
        first
    }

    /// Decodes an instruction by its opcode: each belongs to one family.
    fn instruction(&mut self, i: &Resolved<'m>) -> Decoded<()> {
        let opcode = i.instruction.opcode.as_str();
        match opcode {
            "mov" => self.mov(i),
            "cvta" => self.cvta(i),
            "isspacep" => self.is_space(i),
            "mapa" => self.mapa(i),
            "getctarank" => self.cta_rank(i),
            "bra" | "brx" | "ret" | "exit" | "trap" | "brkpt" | "call" | "nanosleep"
            | "setmaxnreg" | "activemask" => self.control(opcode, i),
            "createpolicy" => self.cache_policy(i),
            "griddepcontrol" => self.grid_dependency(i),
            "prefetch" | "prefetchu" | "discard" | "applypriority" | "pmevent" => {
                self.emit(i, Op::Nop);
                Ok(())
            }
            "elect" | "shfl" | "vote" | "match" | "redux" => self.warp_wide(opcode, i),
            "ld" | "ldu" => self.load_op(i),
            "st" => self.store_op(i),
            "atom" | "red" => self.atomic(opcode, i),
            "bar" | "barrier" => self.barrier(opcode, i),
            "membar" | "fence" => self.fence(i),
            "mbarrier" => self.mbarrier(i),
            "cp" => self.copy(i),
            "tensormap" => self.tensormap(i),
            "clusterlaunchcontrol" => self.cluster_launch_control(i),
            "mma" | "wmma" | "ldmatrix" | "stmatrix" | "movmatrix" => self.warp_matrix(opcode, i),
            "wgmma" => self.warpgroup_mma(i),
            "tcgen05" => self.tcgen05(i),
            "alloca" | "stacksave" | "stackrestore" | "istypep" | "multimem" => {
                Err(format!("instruction `{opcode}` is not known here"))
            }
            _ => self.arithmetic(opcode, i),
        }
    }

    fn check_guard(&self, i: &Resolved<'m>) -> Result<(), Error> {
        let Some((register, _)) = i.guard else { return Ok(()) };
        let ty = self.body.registers[register.0 as usize].ty;
        match ty {
            Type::Pred => Ok(()),
            _ => {
                Err(call::unsupported(i, format!("a guard must be a predicate; this one is .{ty}")))
            }
        }
    }

    pub(crate) fn emit(&mut self, i: &Resolved<'m>, op: impl Into<Op>) {
        let op = op.into();
        let guard = i.guard.and_then(|(register, negated)| {
            match self.registers[register.0 as usize] {
                Reg::P(p) => Some((p, negated)),
                // `check_guard` let no other pass.
                _ => None,
            }
        });
        let opcode = i.instruction.opcode.as_str();
        let mufu = matches!(opcode, "ex2" | "lg2" | "sin" | "cos" | "tanh" | "rsqrt")
            || matches!(opcode, "rcp" | "sqrt") && i.instruction.has("approx");
        let flow = op.flow(Some(i.instruction));
        let cost = if mufu { timing::MUFU } else { op.cost() };
        let unit = match self.joins_last(i.instruction) {
            true => (crate::record::Unit::Issue, 0),
            false => crate::record::unit(&op, Some(i.instruction), mufu),
        };
        self.push(guard, op, (cost, unit), flow);
    }

    /// Whether the assembler makes one instruction of the last one and this one.
    fn joins_last(&mut self, instruction: &'m ptx::ast::Instruction) -> bool {
        if crate::record::is_move(instruction) {
            return false;
        }
        let last = self.joinable.take();
        let joins = last.is_some_and(|last| crate::record::joins(last, instruction));
        if !joins && crate::record::joinable(self.module, instruction) {
            self.joinable = Some(instruction);
        }
        joins
    }

    pub(crate) fn emit_unguarded(&mut self, op: impl Into<Op>) {
        let op = op.into();
        let (cost, flow) = (op.cost(), op.flow(None));
        let unit = crate::record::unit(&op, None, false);
        self.push(None, op, (cost, unit), flow);
    }

    fn push(
        &mut self,
        guard: Option<(P, bool)>,
        op: Op,
        ((cost, class), unit): (Cost, (crate::record::Unit, u8)),
        flow: Flow,
    ) {
        if matches!(
            op,
            Op::Control(Control::Branch { .. }) | Op::Control(Control::BranchIndex { .. })
        ) {
            self.branches.push(self.code.len());
        }
        self.code.push(Inst {
            guard,
            op,
            source: self.source,
            touches_wgmma: false,
            touches_tmem: false,
            copies: false,
            follows: false,
            flow,
            touches_load: false,
            unit,
            cost,
            class,
        });
    }

    /// Branch targets are PTX instruction numbers until all instructions are decoded.
    fn patch_targets(&mut self, starts: &[Pc]) {
        for index in std::mem::take(&mut self.branches) {
            match &mut self.code[index].op {
                Op::Control(Control::Branch { target }) => *target = starts[*target as usize],
                Op::Control(Control::BranchIndex { targets, .. }) => {
                    targets.iter_mut().for_each(|target| *target = starts[*target as usize]);
                }
                _ => {}
            }
        }
    }

    fn finish(self, function: &Function, undefined: Vec<(Reg, Symbol)>) -> Kernel {
        let globals = self.constants.globals.iter().map(|(name, r)| (name.to_string(), *r));
        let cancels =
            |inst: &Inst| matches!(inst.op, Op::LaunchControl(LaunchControl::TryCancel { .. }));
        let reads = |special| self.constants.reads(special);
        let first_shared =
            if reads(Special::SharedScratch) { SHARED_SCRATCH } else { RESERVED_SHARED };
        let meets = [true, false].map(|upper| reads(Special::GridWorkspace { upper }));
        Kernel {
            first_shared,
            has_grid_workspace: meets.contains(&true),
            cancels_clusters: self.code.iter().any(cancels),
            clusters_communicate: self.code.iter().any(|inst| inst.op.reaches_clusters()),
            name: function.name.to_string(),
            sources: self.sources,
            code: self.code,
            frame: self.frame,
            fills: self.constants.fills,
            params: self.variables.params,
            param_bytes: self.variables.param_bytes,
            shared: self.variables.shared,
            dynamic_shared: self.variables.dynamic_shared,
            local_bytes: self.variables.local_bytes,
            globals: globals.collect(),
            carry: self.carry,
            undefined,
            chip: self.chip,
            registers_at_launch: ptx::registers_at_launch(&function.directives),
        }
    }
}

fn files(module: &Module) -> Vec<(u32, String)> {
    let files = module.items.iter().filter_map(|item| match item {
        Item::File(file) => Some((file.index, file.path.clone())),
        _ => None,
    });
    files.collect()
}

/// The operand at `index`.
pub(crate) fn arg<'a>(i: &'a Resolved, index: usize) -> Decoded<&'a Arg> {
    i.args.get(index).ok_or_else(|| format!("operand {} is missing", index + 1))
}
