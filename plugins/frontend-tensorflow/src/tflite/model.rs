//! What a TFLite file says: sub-graphs of operators on tensors, constants, and signatures.

use super::flat::{FlatFile, FlatResult, FlatTable};
use super::operators::{self, CUSTOM};
use super::options;
use super::types::type_number;
use bytes::Bytes;
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, refuse, shown};
use onnxd_plugin_sdk::ir::DataType;
use onnxd_plugin_sdk::lower::Value;
use std::rc::Rc;

/// Axes of a tensor.
const RANK_MAX: usize = 32;

/// Bytes of a fact for the report.
const FACT_BYTES_MAX: usize = 1 << 10;

/// From this code on, operators have it in the newer field alone.
const NEWER: i64 = 127;

#[derive(Debug)]
pub(crate) struct Model {
    /// Facts for the report.
    pub(crate) facts: Vec<(String, String)>,
    pub(crate) graphs: Vec<SubGraph>,
    pub(crate) signatures: Vec<Signature>,
}

#[derive(Debug)]
pub(crate) struct SubGraph {
    /// Its place among the graphs of the file.
    pub(crate) number: usize,
    pub(crate) name: String,
    pub(crate) tensors: Vec<Tensor>,
    pub(crate) inputs: Vec<usize>,
    pub(crate) outputs: Vec<usize>,
    pub(crate) operators: Vec<LiteOperator>,
}

#[derive(Clone, Debug)]
pub(crate) struct Tensor {
    pub(crate) name: String,
    /// TensorFlow's number of the element type.
    pub(crate) number: i32,
    pub(crate) dims: Vec<i64>,
    /// With -1 for sizes that vary; empty if none does.
    pub(crate) signature: Vec<i64>,
    /// Whether `dims` say the number of axes.
    pub(crate) ranked: bool,
    /// What a constant holds.
    pub(crate) data: Option<Bytes>,
    pub(crate) quantization: Option<Quantization>,
    pub(crate) sparsity: Option<Sparsity>,
    /// Whether it keeps its value between runs.
    pub(crate) variable: bool,
}

/// `real = scale * (stored - zero)`, with one or as many scales as an axis is long.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Quantization {
    pub(crate) scales: Vec<f32>,
    pub(crate) zeros: Vec<i64>,
    pub(crate) axis: usize,
    /// Whether blocks of weights have their own scales.
    pub(crate) blocks: bool,
}

/// How a sparse constant is stored, from the outermost axis on.
#[derive(Clone, Debug)]
pub(crate) struct Sparsity {
    pub(crate) order: Vec<i32>,
    pub(crate) blocks: Vec<i32>,
    pub(crate) axes: Vec<SparseAxis>,
}

#[derive(Clone, Debug)]
pub(crate) enum SparseAxis {
    Dense(usize),
    Compressed { segments: Vec<usize>, indices: Vec<usize> },
}

#[derive(Debug)]
pub(crate) struct LiteOperator {
    pub(crate) code: i64,
    /// The name of a custom operator.
    pub(crate) custom: Rc<str>,
    pub(crate) inputs: Vec<Option<usize>>,
    pub(crate) outputs: Vec<usize>,
    /// Tensors that say how a kernel stores numbers on its way.
    pub(crate) intermediates: Vec<Option<usize>>,
    pub(crate) options: Vec<(&'static str, Value)>,
    /// Options of a custom operator.
    pub(crate) custom_options: Bytes,
}

#[derive(Debug)]
pub(crate) struct Signature {
    pub(crate) key: String,
    pub(crate) graph: usize,
    pub(crate) inputs: Vec<(String, usize)>,
    pub(crate) outputs: Vec<(String, usize)>,
}

impl Model {
    /// Whether it computes with integers that stand for real numbers. Weights alone do not make it so.
    pub(crate) fn is_quantized(&self) -> bool {
        let tensors = self.graphs.iter().flat_map(|graph| &graph.tensors);
        tensors.filter(|tensor| tensor.data.is_none()).any(|tensor| {
            let narrow =
                matches!(tensor.dtype(), Some(DataType::Int8 | DataType::Uint8 | DataType::Int16));
            narrow && tensor.quantization.is_some()
        })
    }
}

/// The inputs of an operator that its kernel changes, for the next call.
pub(crate) fn states<'g>(
    graph: &'g SubGraph,
    called: &'g LiteOperator,
) -> impl Iterator<Item = usize> + 'g {
    let is_state = |index: &usize| {
        graph.tensors.get(*index).is_some_and(|tensor| tensor.variable && tensor.data.is_none())
    };
    called.inputs.iter().flatten().copied().filter(is_state)
}

impl LiteOperator {
    /// Its name, for messages.
    pub(crate) fn name(&self) -> &str {
        match operators::find(self.code, &self.custom) {
            Some(operator) => operator.name,
            None if self.code == CUSTOM => &self.custom,
            None => "operator",
        }
    }
}

impl Tensor {
    /// Its sizes, with -1 for those that vary.
    pub(crate) fn sizes(&self) -> Vec<i64> {
        if self.signature.is_empty() { self.dims.clone() } else { self.signature.clone() }
    }

    /// The element type; `None` for handles and for what ONNX does not have.
    pub(crate) fn dtype(&self) -> Option<DataType> {
        crate::wire::dtype::dtype_of_number(self.number)
    }
}

fn wrong(what: impl Into<String>) -> Diagnostic {
    Diagnostic::new(Code::SourceSyntax, what)
}

/// Reads a file, whose constants stay where they are.
///
/// # Errors
/// `N0201` for a file that contradicts itself, `N0213` beyond limits.
pub(crate) fn read(bytes: &Bytes) -> FlatResult<Model> {
    let file = FlatFile::new(bytes);
    let root = file.root()?;
    let codes = root.each(1, code)?;
    let buffers = root.each(4, |buffer| match inside(buffer, bytes, 0)? {
        Some(data) => Ok(Some(data)),
        None => behind(buffer, bytes, [1, 2]),
    })?;
    let facts = facts(&root, &buffers)?;
    let reader = ModelReader { bytes, codes, buffers };
    let mut numbers = 0..;
    let graphs = root.each(2, |table| reader.graph(numbers.next().unwrap_or_default(), table))?;
    Ok(Model { facts, signatures: root.each(7, |table| signature(table, &graphs))?, graphs })
}

/// What a model says of itself: its description, and the oldest version of TFLite that runs it.
fn facts(root: &FlatTable<'_>, buffers: &[Option<Bytes>]) -> FlatResult<Vec<(String, String)>> {
    let mut found = vec![("source.description".to_owned(), root.text(3)?)];
    for (name, buffer) in root.each(6, |entry| Ok((entry.text(0)?, entry.scalar::<u32>(1)?)))? {
        let buffer = buffers.get(buffer as usize).and_then(Option::as_ref);
        if let ("min_runtime_version", Some(bytes)) = (name.as_str(), buffer) {
            let bytes = &bytes[..bytes.len().min(FACT_BYTES_MAX)];
            let text = String::from_utf8_lossy(bytes).trim_end_matches('\0').to_owned();
            found.push(("source.min_runtime_version".to_owned(), text));
        }
    }
    found.retain(|(_, text)| !text.is_empty() && text.len() <= FACT_BYTES_MAX);
    Ok(found)
}

/// The number of an operator, and the name of a custom one.
fn code(table: &FlatTable<'_>) -> FlatResult<(i64, Rc<str>)> {
    let (old, new) = (table.scalar::<i8>(0)?, table.scalar::<i32>(3)?);
    let code = i64::from(old).max(i64::from(new));
    let code = if code == NEWER { i64::from(new) } else { code };
    Ok((code, if code == CUSTOM { table.text(1)?.into() } else { "".into() }))
}

/// What a table holds in itself, if that is anything.
fn inside(table: &FlatTable<'_>, bytes: &Bytes, slot: usize) -> FlatResult<Option<Bytes>> {
    let (start, inside) = table.bytes(slot)?;
    Ok((!inside.is_empty()).then(|| bytes.slice(start..start + inside.len())))
}

/// What a table has behind all tables, at an offset with a size; the offset 1 stands for no place.
fn behind(table: &FlatTable<'_>, bytes: &Bytes, slots: [usize; 2]) -> FlatResult<Option<Bytes>> {
    let [offset, size] = [table.scalar::<u64>(slots[0])?, table.scalar::<u64>(slots[1])?];
    if offset <= 1 || size == 0 {
        return Ok(None);
    }
    let range = usize::try_from(offset).ok().zip(usize::try_from(offset.saturating_add(size)).ok());
    let range = range.filter(|(_, end)| *end <= bytes.len());
    range.map(|(start, end)| Some(bytes.slice(start..end))).ok_or_else(|| {
        wrong(format!("A constant is to be at {offset}, {size} bytes long, outside of the file."))
    })
}

struct ModelReader<'f> {
    bytes: &'f Bytes,
    codes: Vec<(i64, Rc<str>)>,
    buffers: Vec<Option<Bytes>>,
}

impl ModelReader<'_> {
    fn graph(&self, number: usize, table: &FlatTable<'_>) -> FlatResult<SubGraph> {
        let tensors = table.each(0, |table| self.tensor(table))?;
        let count = tensors.len();
        Ok(SubGraph {
            number,
            name: table.text(4)?,
            inputs: indices(table, 1, count)?,
            outputs: indices(table, 2, count)?,
            operators: table.each(3, |table| self.operator(table, count))?,
            tensors,
        })
    }

    fn tensor(&self, table: &FlatTable<'_>) -> FlatResult<Tensor> {
        let name = table.text(3)?;
        let about = |what: &str| wrong(format!("The tensor `{}` {what}.", shown(&name)));
        let sizes = |slot| -> FlatResult<Vec<i64>> {
            let sizes = table.numbers::<i32>(slot)?;
            refuse!(sizes.len() > RANK_MAX => about("has too many axes"));
            Ok(sizes.into_iter().map(i64::from).collect())
        };
        let (dims, mut signature) = (sizes(0)?, sizes(7)?);
        if signature.len() != dims.len() {
            signature.clear();
        }
        let buffer = table.scalar::<u32>(2)? as usize;
        let data = match buffer {
            0 => None,
            index => self.buffers.get(index).ok_or_else(|| about("has no buffer"))?.clone(),
        };
        refuse!(table.scalar::<u32>(10)? > 0 =>
            Diagnostic::new(Code::LayerUnsupported, format!("The constant `{}` is in another file.", shown(&name))));
        let ranked = !dims.is_empty() || table.scalar::<bool>(8)? || data.is_some();
        Ok(Tensor {
            number: type_number(table.scalar::<i8>(1)?.into()),
            ranked,
            data,
            quantization: table.table(4)?.map(|table| quantization(&table)).transpose()?.flatten(),
            sparsity: table.table(6)?.map(|table| sparsity(&table)).transpose()?,
            variable: table.scalar(5)?,
            name,
            dims,
            signature,
        })
    }

    fn operator(&self, table: &FlatTable<'_>, tensors: usize) -> FlatResult<LiteOperator> {
        let index = table.scalar::<u32>(0)? as usize;
        let (code, custom) = self.codes.get(index).cloned().ok_or_else(|| {
            wrong(format!("A node is to be of operator {index}, which the file does not list."))
        })?;
        let maybe = |slot| -> FlatResult<Vec<Option<usize>>> {
            let all = table.numbers::<i32>(slot)?.into_iter().map(|index| match index {
                -1 => Ok(None),
                index => index_below(index.into(), tensors).map(Some),
            });
            all.collect()
        };
        let second = table.scalar::<u8>(11)? != 0;
        let custom_options = match behind(table, self.bytes, [9, 10])? {
            Some(options) => options,
            None => inside(table, self.bytes, 5)?.unwrap_or_default(),
        };
        let options = match operators::find(code, &custom).and_then(|operator| operator.options) {
            Some(name) if code == CUSTOM => options::read_custom(name, &custom_options)?,
            Some(name) => options::read(name, table.table(if second { 12 } else { 4 })?)?,
            None => vec![],
        };
        Ok(LiteOperator {
            code,
            custom,
            inputs: maybe(1)?,
            intermediates: maybe(8)?,
            outputs: indices(table, 2, tensors)?,
            options,
            custom_options,
        })
    }
}

fn index_below(index: i64, count: usize) -> FlatResult<usize> {
    let found = usize::try_from(index).ok().filter(|index| *index < count);
    found.ok_or_else(|| wrong(format!("There is no tensor {index}: the graph has {count}.")))
}

/// Numbers of tensors, of which there are `count`.
fn indices(table: &FlatTable<'_>, slot: usize, count: usize) -> FlatResult<Vec<usize>> {
    let found = table.numbers::<i32>(slot)?.into_iter();
    found.map(|index| index_below(index.into(), count)).collect()
}

fn quantization(table: &FlatTable<'_>) -> FlatResult<Option<Quantization>> {
    let scales = table.numbers::<f32>(2)?;
    let blocks = table.scalar::<u8>(4)? != 0;
    if scales.is_empty() && !blocks {
        return Ok(None);
    }
    let axis = usize::try_from(table.scalar::<i32>(6)?).unwrap_or(usize::MAX);
    Ok(Some(Quantization { scales, zeros: table.numbers(3)?, axis, blocks }))
}

fn sparsity(table: &FlatTable<'_>) -> FlatResult<Sparsity> {
    let (order, blocks) = (table.numbers(0)?, table.numbers(1)?);
    Ok(Sparsity { order, blocks, axes: table.each(2, sparse_axis)? })
}

fn sparse_axis(table: &FlatTable<'_>) -> FlatResult<SparseAxis> {
    if table.scalar::<i8>(0)? == 0 {
        let size = usize::try_from(table.scalar::<i32>(1)?);
        return size.map(SparseAxis::Dense).map_err(|_| wrong("A sparse axis has no size."));
    }
    Ok(SparseAxis::Compressed { segments: vector(table, 2)?, indices: vector(table, 4)? })
}

/// A vector of one of three widths: its kind, then a table around it.
fn vector(table: &FlatTable<'_>, slot: usize) -> FlatResult<Vec<usize>> {
    let Some(inner) = table.table(slot + 1)? else { return Ok(vec![]) };
    Ok(match table.scalar::<u8>(slot)? {
        1 => {
            let numbers = inner.numbers::<i32>(0)?;
            let plain = numbers.into_iter().map(|x| usize::try_from(x).unwrap_or(usize::MAX));
            plain.collect()
        }
        2 => inner.numbers::<u16>(0)?.into_iter().map(usize::from).collect(),
        _ => inner.numbers::<u8>(0)?.into_iter().map(usize::from).collect(),
    })
}

fn signature(table: &FlatTable<'_>, graphs: &[SubGraph]) -> FlatResult<Signature> {
    let graph = table.scalar::<u32>(4)? as usize;
    let key = table.text(2)?;
    let count = graphs.get(graph).map(|graph| graph.tensors.len()).ok_or_else(|| {
        wrong(format!("The signature `{}` is of a graph that is missing.", shown(&key)))
    })?;
    let tensors = |slot| -> FlatResult<Vec<(String, usize)>> {
        table.each(slot, |entry| {
            Ok((entry.text(0)?, index_below(entry.scalar::<u32>(1)?.into(), count)?))
        })
    };
    Ok(Signature { graph, inputs: tensors(0)?, outputs: tensors(1)?, key })
}
