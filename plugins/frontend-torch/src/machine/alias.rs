//! Tensors that share memory. A view knows the tensor it looks at and how; what is written into a view becomes a new
//! value of that tensor, and all its other views are derived anew when they are read.

use super::item::now;
#[cfg(test)]
mod tests;

use super::{Item, Machine, Result};
use crate::aten::dtype::number;
use crate::diag::{Code, shown};
use onnxd_plugin_sdk::build::Var;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;

/// Views of views of a tensor that are followed.
const VIEWS_MAX: usize = 256;

/// A value of the graph, and the number of the write that made it.
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct TensorVersion {
    pub(crate) version: u64,
    pub(crate) var: Var,
}

/// Memory that one or more tensors look at.
pub(crate) struct Base {
    pub(crate) state: Cell<TensorVersion>,
    pub(crate) born: u64,
    /// Bases that a tensor of this one may be a view of, as a condition or loop decides when the model runs, with
    /// their versions.
    pub(crate) maybe: RefCell<Vec<(Rc<Base>, u64)>>,
    /// Whether a tensor was written that may be a view of this one.
    pub(crate) stale: Cell<bool>,
}

/// A tensor: the whole of a base, or a view of another tensor.
pub(crate) struct View {
    pub(crate) base: Rc<Base>,
    from: RefCell<From>,
    depth: Cell<usize>,
    /// What it was when it was read last; of the version that the base had then.
    pub(crate) read: Cell<TensorVersion>,
}

/// What a view looks at, and how.
pub(crate) type From = Option<(Rc<View>, ViewStep)>;

/// How a view looks at a tensor: an operator that shares memory, its other arguments, and which item of its result.
#[derive(Clone)]
pub(crate) struct ViewStep {
    pub(crate) op: Rc<str>,
    pub(crate) arguments: Rc<[(&'static str, Item)]>,
    pub(crate) pick: Option<usize>,
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "View({:?})", self.read.get().var)
    }
}

impl ViewStep {
    fn argument(&self, name: &str) -> Item {
        let found = self.arguments.iter().find(|(n, _)| *n == name);
        found.map_or(Item::None, |(_, item)| item.clone())
    }

    fn plain_name(&self) -> &str {
        let name = self.op.rsplit("::").next().unwrap_or_default();
        name.split('.').next().unwrap_or_default()
    }

    /// Whether the elements lie in memory in the order of the view, if those of the tensor it looks at do.
    fn keeps_order(&self) -> bool {
        let first = || matches!(self.argument("dim"), Item::Int(0));
        match self.plain_name() {
            "select" | "slice" | "narrow" | "split" | "split_with_sizes" | "chunk" | "unbind"
            | "tensor_split" => first() && !matches!(self.argument("step"), Item::Int(2..)),
            "view" | "view_as" | "reshape" | "reshape_as" | "flatten" | "unflatten" | "squeeze"
            | "unsqueeze" | "ravel" | "detach" | "alias" | "contiguous" | "to" | "_unsafe_view" => {
                true
            }
            _ => false,
        }
    }
}

impl View {
    fn new(base: Rc<Base>, from: From, depth: usize, read: TensorVersion) -> View {
        View { base, from: RefCell::new(from), depth: Cell::new(depth), read: Cell::new(read) }
    }

    /// Changes what the view looks at; gives what it looked at before.
    pub(crate) fn replace_from(&self, from: From, depth: usize) -> (From, usize) {
        (self.from.replace(from), self.depth.replace(depth))
    }

    /// Whether it is the whole of its base.
    pub(crate) fn is_whole(&self) -> bool {
        self.from.borrow().is_none()
    }

    /// Whether the elements lie in memory in the order of the tensor, as far as its views say.
    pub(crate) fn is_contiguous(&self) -> bool {
        match &*self.from.borrow() {
            None => true,
            Some((parent, step)) => step.keeps_order() && parent.is_contiguous(),
        }
    }
}

impl Machine<'_> {
    /// A tensor of its own.
    pub(crate) fn tensor(&self, var: Var) -> Item {
        let state = TensorVersion { version: self.next_version(), var };
        let (maybe, stale) = Default::default();
        let base = Rc::new(Base { state: Cell::new(state), born: now(), maybe, stale });
        Item::Tensor(Rc::new(View::new(base, None, 0, state)))
    }

    /// A tensor that shares the memory of `parent`, and is `var` at present.
    pub(crate) fn view(&self, parent: &Rc<View>, step: ViewStep, var: Var) -> Result<Item> {
        let state = TensorVersion { version: parent.base.state.get().version, var };
        let depth = self.deeper(parent)?;
        let from = Some((parent.clone(), step));
        Ok(Item::Tensor(Rc::new(View::new(parent.base.clone(), from, depth, state))))
    }

    fn deeper(&self, parent: &View) -> Result<usize> {
        if parent.depth.get() >= VIEWS_MAX {
            let message = format!("More than {VIEWS_MAX} views of views share memory.");
            return Err(self.problem(Code::SourceLimit, message));
        }
        Ok(parent.depth.get() + 1)
    }

    /// Makes a tensor look at what it was in another way, as `unsqueeze_` does; it is `var` from now on.
    pub(crate) fn reshape_in_place(&self, view: &Rc<View>, step: ViewStep, var: Var) -> Result<()> {
        let depth = self.deeper(view)?;
        let now = view.read.get();
        let before = view.from.borrow().clone();
        let old = Rc::new(View::new(view.base.clone(), before, view.depth.get(), now));
        self.set_from(view, Some((old, step)), depth);
        self.remember(view, TensorVersion { version: view.base.state.get().version, var });
        Ok(())
    }

    /// The tensor as it is now.
    pub(crate) fn read(&self, view: &Rc<View>) -> Result<Var> {
        self.check_shared(&view.base)?;
        let now = view.base.state.get();
        let from = view.from.borrow().clone();
        let Some((parent, step)) = from else { return Ok(now.var) };
        if view.read.get().version == now.version {
            return Ok(view.read.get().var);
        }
        let parent = self.read(&parent)?;
        let var = self.forward(&step, parent)?;
        self.remember(view, TensorVersion { version: now.version, var });
        Ok(var)
    }

    /// Makes `new` the value of the tensor, and of what it looks at.
    pub(crate) fn write(&self, view: &Rc<View>, new: Var) -> Result<()> {
        let version = self.next_version();
        for (other, _) in view.base.maybe.borrow().iter() {
            self.set_stale(other);
        }
        self.write_version(view, new, version)
    }

    /// Says that `result`, which a condition or loop gives, may be a view of what `item` is.
    pub(crate) fn may_share(&self, result: &Item, item: &Item) {
        match (result, item) {
            (Item::Tensor(result), Item::Tensor(item)) if !Rc::ptr_eq(&result.base, &item.base) => {
                let own = std::iter::once(item.base.clone());
                let others =
                    item.base.maybe.borrow().iter().map(|(b, _)| b.clone()).collect::<Vec<_>>();
                let all = own.chain(others).map(|base| {
                    let version = base.state.get().version;
                    (base, version)
                });
                result.base.maybe.borrow_mut().extend(all);
            }
            (Item::Maybe(_, result), item) => self.may_share(result, item),
            (result, Item::Maybe(_, item)) => self.may_share(result, item),
            _ => {
                let (Some(results), Some(items)) = (result.items(), item.items()) else { return };
                results.iter().zip(&items).for_each(|(r, i)| self.may_share(r, i));
            }
        }
    }

    /// # Errors
    /// `N0203` if the value of a tensor depends on a path of the program and on what was written since.
    fn check_shared(&self, base: &Base) -> Result<()> {
        let written = |(other, version): &(Rc<Base>, u64)| other.state.get().version != *version;
        if base.stale.get() || base.maybe.borrow().iter().any(written) {
            let message = "A tensor is written in place, and whether another one shares its memory depends on the \
                           path of the program.";
            let help = "Clone the tensor in the branch that passes it on.";
            return Err(self.problem(Code::LayerUnsupported, message).help(help));
        }
        Ok(())
    }

    fn write_version(&self, view: &Rc<View>, new: Var, version: u64) -> Result<()> {
        let state = TensorVersion { version, var: new };
        let from = view.from.borrow().clone();
        match from {
            None => self.set_base(&view.base, state),
            Some((parent, step)) => {
                let before = self.read(&parent)?;
                let whole = self.inverse(&step, before, new)?;
                self.write_version(&parent, whole, version)?;
                self.remember(view, state);
            }
        }
        Ok(())
    }

    fn forward(&self, step: &ViewStep, parent: Var) -> Result<Var> {
        let given = self.lower_row(&step.op, parent, &step.arguments)?;
        let found = match step.pick {
            None => Some(given),
            Some(i) => given.items().and_then(|items| items.get(i).cloned()),
        };
        self.var_of(&found.unwrap_or_else(|| self.hole()))
    }

    /// The tensor `before` with `new` in place of what the view looks at.
    fn inverse(&self, step: &ViewStep, before: Var, new: Var) -> Result<Var> {
        let source = ("src", self.tensor(new));
        let with = |op: &str, arguments: Vec<(&'static str, Item)>| {
            let item = self.lower_row(op, before, &arguments)?;
            self.var_of(&item)
        };
        let dim = match step.argument("dim") {
            Item::None => Item::Int(0),
            dim => dim,
        };
        match step.plain_name() {
            "select" => with(
                "aten::select_scatter",
                vec![source, ("dim", dim), ("index", step.argument("index"))],
            ),
            "unbind" => {
                let index = Item::Int(step.pick.ok_or_else(|| self.no_inverse(step))? as i64);
                with("aten::select_scatter", vec![source, ("dim", dim), ("index", index)])
            }
            "slice" => {
                let rest = ["start", "end", "step"].map(|name| (name, step.argument(name)));
                let arguments = [source, ("dim", dim)].into_iter().chain(rest).collect();
                with("aten::slice_scatter", arguments)
            }
            "narrow" => {
                let (start, length) = (step.argument("start"), step.argument("length"));
                match (start.as_int(), length.as_int()) {
                    (Some(start @ 0..), Some(length)) => {
                        self.scatter_range(before, source, dim, (start, length))
                    }
                    _ => self.scattered(step, before, new),
                }
            }
            "split" | "split_with_sizes" | "chunk" | "tensor_split" => {
                match self.range_of_part(step, before) {
                    Some(range) => self.scatter_range(before, source, dim, range),
                    None => self.scattered(step, before, new),
                }
            }
            "diagonal" => {
                let rest = ["offset", "dim1", "dim2"].map(|name| (name, step.argument(name)));
                with("aten::diagonal_scatter", [source].into_iter().chain(rest).collect())
            }
            "as_strided" => {
                let rest = ["size", "stride", "storage_offset"];
                let rest = rest.map(|name| (name, step.argument(name)));
                with("aten::as_strided_scatter", [source].into_iter().chain(rest).collect())
            }
            "transpose" | "t" | "numpy_T" | "mT" | "mH" | "swapaxes" | "swapdims" => {
                let item = self.lower_row(&step.op, new, &step.arguments)?;
                self.var_of(&item)
            }
            "permute" => self.unpermuted(step, new),
            "view" if step.op.ends_with(".dtype") => {
                let Some(dtype) = self.builder().dtype_of(before) else {
                    return Err(self.no_inverse(step));
                };
                let item = self.lower_row(&step.op, new, &[("dtype", Item::Int(number(dtype)))])?;
                self.var_of(&item)
            }
            "view" | "view_as" | "reshape" | "reshape_as" | "flatten" | "unflatten" | "squeeze"
            | "unsqueeze" | "ravel" | "_unsafe_view" => {
                let b = self.builder();
                b.reshape(new, b.shape(before).one()?).one()
            }
            "detach" | "alias" | "contiguous" | "to" | "lift_fresh" => Ok(new),
            "movedim" | "moveaxis" | "unfold" | "hsplit" | "vsplit" | "dsplit" => {
                self.scattered(step, before, new)
            }
            _ => Err(self.no_inverse(step)),
        }
    }

    /// As [`Machine::inverse`], for views of any kind: the same view of the places of all elements says where those of
    /// `new` belong.
    fn scattered(&self, step: &ViewStep, before: Var, new: Var) -> Result<Var> {
        let b = self.builder();
        let shape = b.shape(before).one()?;
        let count = b.size(before)?;
        let places = b.reshape(b.range(0, count, 1).one()?, shape).one()?;
        let seen = self.forward(step, places)?;
        let Some(rank) = b.rank_of(seen) else { return Err(self.no_inverse(step)) };
        let seen = b.unsqueeze(seen, [rank as i64])?;
        let flat = b.reshape(before, [-1]).one()?;
        b.reshape(b.scatter_nd(flat, seen, new).one()?, shape).one()
    }

    fn scatter_range(
        &self,
        before: Var,
        source: (&'static str, Item),
        dim: Item,
        (start, length): (i64, i64),
    ) -> Result<Var> {
        let bounds = [("start", start), ("end", start + length), ("step", 1)];
        let bounds = bounds.map(|(name, x)| (name, Item::Int(x)));
        let arguments: Vec<_> = [source, ("dim", dim)].into_iter().chain(bounds).collect();
        let item = self.lower_row("aten::slice_scatter", before, &arguments)?;
        self.var_of(&item)
    }

    /// Start and length of the part that a view picks, from the sizes of the parts before it.
    fn range_of_part(&self, step: &ViewStep, before: Var) -> Option<(i64, i64)> {
        let parts = self.lower_row(&step.op, before, &step.arguments).ok()?.items()?;
        let pick = step.pick?;
        let rank = self.builder().rank_of(before)? as i64;
        let axis = step.argument("dim").as_int().unwrap_or(0).rem_euclid(rank.max(1)) as usize;
        let sizes = parts.iter().take(pick + 1).map(|part| {
            let var = self.var_of(part).ok()?;
            self.builder().shape_of(var)?.get(axis)?.known()
        });
        let sizes: Vec<i64> = sizes.collect::<Option<_>>()?;
        let (length, others) = sizes.split_last()?;
        Some((others.iter().sum(), *length))
    }

    fn unpermuted(&self, step: &ViewStep, new: Var) -> Result<Var> {
        let dims = step.argument("dims").items().unwrap_or_default();
        let dims: Vec<i64> = dims.iter().filter_map(Item::as_int).collect();
        let rank = dims.len() as i64;
        let mut inverse = vec![0; dims.len()];
        for (i, dim) in dims.iter().enumerate() {
            inverse[dim.rem_euclid(rank) as usize] = i as i64;
        }
        self.builder().transpose(new).perm(inverse).one()
    }

    fn no_inverse(&self, step: &ViewStep) -> crate::diag::Diagnostic {
        let op = shown(&step.op);
        let message = format!("What is written into a view made by `{op}` cannot be converted.");
        self.problem(Code::LayerUnsupported, message)
    }
}
