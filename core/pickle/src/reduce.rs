//! The functions that pickles of torch call, and what all others leave behind.

use super::Pickled;
use super::context::Context;
use super::tree::Containers;
use crate::problem::{damaged, unsupported};
use crate::storage::{Quantizer, Storage, Storages, StoredTensor, python_type, storage_type};
use onnxd_diagnostics::{Diagnostic, refuse};
use onnxd_ir::{DataType, Tensor};
use std::collections::HashMap;
use std::rc::Rc;

/// Scales of a tensor that is quantized by channel.
const CHANNELS_MAX: usize = 1 << 20;

pub(super) fn global(module: Rc<str>, name: Rc<str>) -> Pickled {
    match &*module {
        // The name in Python 2, which protocol 2 keeps.
        "__builtin__" => Pickled::Global("builtins".into(), name),
        _ => Pickled::Global(module, name),
    }
}

/// Keys and values that follow each other.
pub(super) fn pairs(items: Vec<Pickled>) -> Result<Vec<(Pickled, Pickled)>, Diagnostic> {
    refuse!(items.len() % 2 == 1 => damaged("the pickle has a key without value"));
    let mut items = items.into_iter();
    Ok(std::iter::from_fn(|| items.next().zip(items.next())).collect())
}

/// Adds items to a list or dict, or to an object that is one itself. `does` says what, for a message.
pub(super) fn extend(to: &Pickled, items: Pickled, does: &str) -> Result<(), Diagnostic> {
    let (is_taken, kind) = match to {
        Pickled::Object(object) => {
            let mut state = object.state.borrow_mut();
            match &*state {
                Some(own) => (taken(own, &items), "an object of another kind"),
                None => {
                    *state = Some(items);
                    (true, "")
                }
            }
        }
        other => (taken(other, &items), other.kind()),
    };
    refuse!(!is_taken => damaged(format!("the pickle {does} {kind}")));
    Ok(())
}

/// Moves items to a container of the same kind; whether it is one.
fn taken(to: &Pickled, items: &Pickled) -> bool {
    match (to, items) {
        (Pickled::List(to), Pickled::List(items)) => {
            to.borrow_mut().append(&mut items.borrow_mut());
        }
        (Pickled::Dict(to), Pickled::Dict(items)) => {
            to.borrow_mut().append(&mut items.borrow_mut());
        }
        _ => return false,
    }
    true
}

/// Gives an object its state. Items of a class that is a dict or list itself stay, if the state adds attributes.
pub(super) fn build(to: &Pickled, state: Pickled, context: &Context) -> Result<(), Diagnostic> {
    match to {
        Pickled::Object(object) => {
            let mut own = object.state.borrow_mut();
            match (&*own, &state) {
                (Some(Pickled::Dict(items)), Pickled::Dict(more)) if !Rc::ptr_eq(items, more) => {
                    context.copies(more.borrow().len())?;
                    items.borrow_mut().extend(more.borrow().iter().cloned());
                }
                (Some(_), _) => {}
                (None, _) => *own = Some(state),
            }
            Ok(())
        }
        // Attributes of Python beside the content: `_metadata` of a state dict.
        Pickled::Dict(_) | Pickled::Tensor(_) | Pickled::Storage(_) | Pickled::None => Ok(()),
        other => Err(damaged(format!("the pickle gives a state to {}", other.kind()))),
    }
}

/// What torch 1.1 makes by giving a state to a class: a tensor of the table, or a list.
pub(super) fn first_form(
    to: &Pickled,
    state: &Pickled,
    context: &Context,
) -> Result<Option<Pickled>, Diagnostic> {
    let Pickled::Object(object) = to else { return Ok(None) };
    match &*object.class {
        "__main__.TensorID" => from_table(state, context).map(Some),
        "__main__.IntList" => Ok(Some(state.clone())),
        _ => Ok(None),
    }
}

fn from_table(number: &Pickled, context: &Context) -> Result<Pickled, Diagnostic> {
    let tensor = index(number).and_then(|index| context.table.get(index));
    tensor
        .map(|tensor| Pickled::Tensor(tensor.clone()))
        .ok_or_else(|| damaged("the pickle refers to a tensor that the file has not"))
}

/// Keeps the last value of each key, as Python does.
pub(super) fn settle(made: &Containers) {
    #[derive(PartialEq, Eq, Hash)]
    enum PickledKey {
        Text(Rc<str>),
        Int(i64),
    }
    for dict in &made.0 {
        let Pickled::Dict(items) = dict else { continue };
        let mut places: HashMap<PickledKey, usize> = HashMap::new();
        let mut kept: Vec<(Pickled, Pickled)> = Vec::new();
        let mut items = items.borrow_mut();
        for (key, value) in items.drain(..) {
            let pickled_key = match &key {
                Pickled::Text(text) => Some(PickledKey::Text(text.clone())),
                Pickled::Int(number) => Some(PickledKey::Int(*number)),
                _ => None,
            };
            match pickled_key.map(|pickled_key| *places.entry(pickled_key).or_insert(kept.len())) {
                Some(at) if at < kept.len() => kept[at].1 = value,
                _ => kept.push((key, value)),
            }
        }
        kept.shrink_to_fit();
        *items = kept;
    }
}

/// An object of a class or function that is not known.
pub(super) fn opaque(
    callee: &Pickled,
    arguments: &Pickled,
    named: Option<Pickled>,
    context: &Context,
) -> Result<Pickled, Diagnostic> {
    context.copies(length(arguments))?;
    if let Pickled::Global(module, name) = callee {
        context.copies_text(module)?;
        context.copies_text(name)?;
    }
    let class: Rc<str> = match callee {
        Pickled::Global(module, name) => format!("{module}.{name}").into(),
        // The result of an unknown function, called.
        Pickled::Object(object) => object.class.clone(),
        other => return Err(damaged(format!("the pickle calls {}", other.kind()))),
    };
    let arguments = match callee {
        // TorchScript makes a member of an enum of its value alone.
        Pickled::Global(module, _) if module.starts_with("__torch__") => {
            arguments.items().unwrap_or_else(|| vec![arguments.clone()])
        }
        _ => arguments.items().ok_or_else(|| damaged("the pickle calls without a tuple"))?,
    };
    Ok(Pickled::object(class, arguments.into_iter().chain(named).collect()))
}

/// What a call gives. `makes` tells that it makes an instance of a class.
pub(super) fn call(
    callee: &Pickled,
    arguments: &Pickled,
    context: &Context,
    makes: bool,
) -> Result<Pickled, Diagnostic> {
    let (Pickled::Global(module, name), Pickled::Tuple(arguments_given)) = (callee, arguments)
    else {
        return opaque(callee, arguments, None, context);
    };
    match (&**module, &**name) {
        ("collections", "OrderedDict") => ordered(arguments_given, context),
        ("collections", "defaultdict") => Ok(Pickled::dict(Vec::new())),
        _ if makes => opaque(callee, arguments, None, context),
        ("torch._utils", _) => rebuild(name, arguments_given, context, callee),
        ("torch._tensor" | "torch.tensor", "_rebuild_from_type" | "_rebuild_from_type_v2") => {
            match &arguments_given[..] {
                // A tensor that stands for others, such as quantized ones: they are its attributes.
                [Pickled::Global(_, function), class, arguments, state]
                    if &**function == "_rebuild_wrapper_subclass" =>
                {
                    let made = opaque(class, arguments, None, context)?;
                    if let Pickled::Object(object) = &made {
                        object.state.replace(Some(state.clone()));
                    }
                    Ok(made)
                }
                [function, _, arguments, ..] => call(function, arguments, context, false),
                _ => Err(damaged(format!("the pickle calls `{name}` with too little"))),
            }
        }
        ("torch.jit._pickle", "build_tensor_from_id") => {
            from_table(arguments_given.first().unwrap_or(&Pickled::None), context)
        }
        ("torch.jit._pickle", _) | ("torch", "Size") => match (arguments_given.first(), &**name) {
            (Some(Pickled::List(items)), "Size") => {
                context.copies(items.borrow().len())?;
                Ok(Pickled::Tuple(items.borrow().as_slice().into()))
            }
            (Some(container), _) => Ok(container.clone()),
            (None, _) => Err(damaged(format!("the pickle calls `{name}` with nothing"))),
        },
        ("torch", "device") => match &arguments_given[..] {
            [Pickled::Text(kind)] => Ok(Pickled::Device(kind.clone())),
            [Pickled::Text(kind), Pickled::Int(n)] => {
                context.copies_text(kind)?;
                Ok(Pickled::Device(format!("{kind}:{n}").into()))
            }
            _ => Err(damaged("the pickle has a device without name")),
        },
        ("builtins", "complex") => {
            match (arguments_given.first().and_then(real), arguments_given.get(1).and_then(real)) {
                (Some(re), Some(im)) if arguments_given.len() == 2 => Ok(Pickled::Complex(re, im)),
                _ => Err(damaged("the pickle has a complex number without two parts")),
            }
        }
        _ => opaque(callee, arguments, None, context),
    }
}

fn ordered(given: &[Pickled], context: &Context) -> Result<Pickled, Diagnostic> {
    let Some(first) = given.first() else { return Ok(Pickled::dict(Vec::new())) };
    context.copies(length(first))?;
    let pair = |item: &Pickled| {
        let two = (length(item) == 2).then(|| item.items()).flatten()?;
        <[Pickled; 2]>::try_from(two).ok().map(|[key, value]| (key, value))
    };
    let items = first.items().and_then(|items| items.iter().map(pair).collect());
    Ok(Pickled::dict(items.ok_or_else(|| damaged("the pickle has a dict of no pairs"))?))
}

fn rebuild(
    name: &str,
    given: &[Pickled],
    context: &Context,
    callee: &Pickled,
) -> Result<Pickled, Diagnostic> {
    match (name, given) {
        ("_rebuild_parameter" | "_rebuild_parameter_with_state", [tensor, ..]) => {
            Ok(tensor.clone())
        }
        (
            "_rebuild_tensor" | "_rebuild_tensor_v2" | "_rebuild_tensor_v3" | "_rebuild_qtensor",
            _,
        ) => match context.storages {
            Some(storages) => Ok(Pickled::Tensor(tensor(name, given, storages, context)?)),
            None => Ok(Pickled::None),
        },
        _ if name.contains("sparse") || name.contains("nested") => {
            Err(unsupported(format!("the file has a tensor that is not dense (`{name}`)"))
                .help("Save it as a dense tensor (`to_dense()`)."))
        }
        _ => opaque(callee, &Pickled::Tuple(given.into()), None, context),
    }
}

fn tensor(
    name: &str,
    given: &[Pickled],
    storages: &Storages,
    context: &Context,
) -> Result<Rc<StoredTensor>, Diagnostic> {
    let wrong = || damaged(format!("the pickle calls `{name}` with what makes no tensor"));
    let [Pickled::Storage(storage), offset, sizes, strides, rest @ ..] = given else {
        return Err(wrong());
    };
    let offset = index(offset).ok_or_else(wrong)?;
    context.copies_text(&storage.member)?;
    for container in [sizes, strides, rest.get(2).unwrap_or(&Pickled::None)] {
        context.copies(length(container))?;
    }
    let sizes = indices(sizes).ok_or_else(wrong)?;
    let strides = indices(strides).ok_or_else(wrong)?;
    match name {
        "_rebuild_qtensor" => {
            let quantizer = quantizer(rest.first().ok_or_else(wrong)?, context)?;
            storages.quantized(storage, (offset, &sizes, &strides), quantizer)
        }
        "_rebuild_tensor_v3" => {
            let Some(Pickled::Global(_, ty)) = rest.get(2) else { return Err(wrong()) };
            let dtype = python_type(ty);
            let dtype =
                dtype.ok_or_else(|| unsupported(format!("the file has tensors of type `{ty}`")))?;
            let typed = typed(storage, dtype)?;
            storages.view(&typed, offset, &sizes, &strides)
        }
        _ => {
            for bit in ["conj", "neg"] {
                if let Some(Some(Pickled::Bool(true))) = rest.get(2).map(|m| m.get(bit)) {
                    let what = format!("the file has a tensor with the bit `{bit}` set");
                    return Err(
                        unsupported(what).help("Call `resolve_conj()` and `resolve_neg()` before.")
                    );
                }
            }
            storages.view(storage, offset, &sizes, &strides)
        }
    }
}

/// The bytes of a storage as elements of another type.
fn typed(storage: &Storage, dtype: DataType) -> Result<Storage, Diagnostic> {
    let bytes = storage.elements.bytes();
    let count = bytes.len() / (dtype.bits() / 8);
    let used = bytes.slice(..count * (dtype.bits() / 8));
    let elements = Tensor::new(dtype, vec![count], used).map_err(|e| damaged(e.to_string()))?;
    Ok(Storage { member: storage.member.clone(), elements })
}

fn quantizer(from: &Pickled, context: &Context) -> Result<Quantizer, Diagnostic> {
    let wrong = || damaged("a quantized tensor has no scale and zero point");
    context.copies(length(from))?;
    let parts = from.items().ok_or_else(wrong)?;
    let [Pickled::Global(_, scheme), scales, zeros, rest @ ..] = &parts[..] else {
        return Err(wrong());
    };
    context.copies(length(scales).saturating_add(length(zeros)))?;
    let (axis, scales, zeros) = match &**scheme {
        "per_tensor_affine" | "per_tensor_symmetric" => {
            (None, real(scales).map(|s| vec![s]), real(zeros).map(|z| vec![z]))
        }
        "per_channel_affine" | "per_channel_symmetric" | "per_channel_affine_float_qparams" => {
            (Some(rest.first().and_then(index).ok_or_else(wrong)?), reals(scales), reals(zeros))
        }
        other => return Err(unsupported(format!("a tensor is quantized by `{other}`"))),
    };
    let (scales, zeros) = scales.zip(zeros).ok_or_else(wrong)?;
    let whole = |zero: &f64| (zero.fract() == 0.0 && zero.abs() < 2e9).then_some(*zero as i64);
    let zero_points = zeros.iter().map(whole).collect::<Option<Vec<i64>>>();
    let zero_points = zero_points
        .ok_or_else(|| unsupported("a quantized tensor has zero points that are no integers"))?;
    Ok(Quantizer { scales, zero_points, axis })
}

/// The storage that a persistent id names.
pub(super) fn persistent(id: &Pickled, context: &Context) -> Result<Pickled, Diagnostic> {
    context.copies(length(id))?;
    let parts = id.items().unwrap_or_default();
    let (ty, key, count, rest) = match &parts[..] {
        [Pickled::Text(kind), Pickled::Global(_, ty), key, _, count, rest @ ..]
            if &**kind == "storage" =>
        {
            (ty, key, count, rest)
        }
        // Old files keep the source of a class beside it.
        [Pickled::Text(kind), class @ Pickled::Global(..), ..] if &**kind == "module" => {
            return Ok(class.clone());
        }
        _ => return Err(damaged("the pickle refers to something that is no storage")),
    };
    let ty = ty.strip_prefix('_').unwrap_or(ty);
    let dtype = storage_type(ty);
    let dtype =
        dtype.ok_or_else(|| unsupported(format!("the file has storages of type `{ty}`")))?;
    let (Some(key), Some(count)) = (key.text(), index(count)) else {
        return Err(damaged("the pickle has a storage without key or number of elements"));
    };
    context.copies_text(key)?;
    let Some(storages) = context.storages else {
        context.seen.borrow_mut().insert(key.to_owned(), (dtype, count));
        return Ok(Pickled::None);
    };
    let storage = storages.storage(key, dtype, Some(count))?;
    context.copies(rest.first().map_or(0, length))?;
    match rest.first().and_then(Pickled::items).as_deref() {
        None => Ok(Pickled::Storage(Rc::new(storage))),
        Some([_, offset, size]) => part(&storage, offset, size, context),
        Some(_) => Err(damaged(format!("storage `{key}` is a part of nothing"))),
    }
}

/// A storage that is a part of another one, as old files have them.
fn part(
    whole: &Storage,
    offset: &Pickled,
    size: &Pickled,
    context: &Context,
) -> Result<Pickled, Diagnostic> {
    let wrong = || damaged(format!("a part of storage `{}` is beyond it", whole.member));
    context.copies_text(&whole.member)?;
    let (offset, size) = index(offset).zip(index(size)).ok_or_else(wrong)?;
    let elements = whole.elements.sliced(&[(offset, size, 1)]).map_err(|_| wrong())?;
    let member = format!("{}@{offset}", whole.member).into();
    Ok(Pickled::Storage(Rc::new(Storage { member, elements })))
}

/// How many values a container has, or elements a tensor.
fn length(of: &Pickled) -> usize {
    match of {
        Pickled::Tuple(items) => items.len(),
        Pickled::List(items) => items.borrow().len(),
        Pickled::Dict(items) => items.borrow().len(),
        Pickled::Tensor(stored) => stored.tensor.len(),
        _ => 0,
    }
}

fn index(value: &Pickled) -> Option<usize> {
    match value {
        Pickled::Int(number) => usize::try_from(*number).ok(),
        _ => None,
    }
}

fn indices(value: &Pickled) -> Option<Vec<usize>> {
    value.items()?.iter().map(index).collect()
}

fn real(value: &Pickled) -> Option<f64> {
    match value {
        Pickled::Int(number) => Some(*number as f64),
        Pickled::Float(number) => Some(*number),
        _ => None,
    }
}

fn reals(value: &Pickled) -> Option<Vec<f64>> {
    let Pickled::Tensor(stored) = value else {
        return value.items()?.iter().map(real).collect();
    };
    let tensor = Some(&stored.tensor).filter(|tensor| tensor.len() <= CHANNELS_MAX);
    tensor?.to_reals().map(|reals| reals.values)
}
