//! What a TFLite file says: sub-graphs of operators on tensors, constants, and signatures.

use super::flat::{File, Read, Table};
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
    pub(crate) operators: Vec<Operator>,
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
pub(crate) struct Operator {
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
    called: &'g Operator,
) -> impl Iterator<Item = usize> + 'g {
    let is_state = |index: &usize| {
        graph.tensors.get(*index).is_some_and(|tensor| tensor.variable && tensor.data.is_none())
    };
    called.inputs.iter().flatten().copied().filter(is_state)
}

impl Operator {
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
        crate::wire::dtype::of(self.number)
    }
}

fn wrong(what: impl Into<String>) -> Diagnostic {
    Diagnostic::new(Code::SourceSyntax, what)
}

/// Reads a file, whose constants stay where they are.
///
/// # Errors
/// `N0201` for a file that contradicts itself, `N0213` beyond limits.
pub(crate) fn read(bytes: &Bytes) -> Read<Model> {
    let file = File::new(bytes);
    let root = file.root()?;
    let codes = root.tables(1)?.iter().map(code).collect::<Read<Vec<_>>>()?;
    let buffers =
        root.tables(4)?.iter().map(|buffer| data(buffer, bytes)).collect::<Read<Vec<_>>>()?;
    let facts = facts(&root, &buffers)?;
    let reader = Reader { bytes, codes, buffers };
    let tables = root.tables(2)?;
    let graphs = tables.iter().enumerate().map(|(number, table)| reader.graph(number, table));
    let graphs = graphs.collect::<Read<Vec<_>>>()?;
    let signatures = root.tables(7)?;
    let signatures = signatures.iter().map(|table| signature(table, &graphs));
    Ok(Model { facts, signatures: signatures.collect::<Read<_>>()?, graphs })
}

/// What a model says of itself: its description, and the oldest version of TFLite that runs it.
fn facts(root: &Table<'_>, buffers: &[Option<Bytes>]) -> Read<Vec<(String, String)>> {
    let mut found = vec![("source.description".to_owned(), root.text(3)?)];
    for entry in root.tables(6)? {
        let buffer = buffers.get(entry.scalar::<u32>(1)? as usize).cloned().flatten();
        if let ("min_runtime_version", Some(bytes)) = (entry.text(0)?.as_str(), buffer) {
            let bytes = &bytes[..bytes.len().min(FACT_BYTES_MAX)];
            let text = String::from_utf8_lossy(bytes).trim_end_matches('\0').to_owned();
            found.push(("source.min_runtime_version".to_owned(), text));
        }
    }
    found.retain(|(_, text)| !text.is_empty() && text.len() <= FACT_BYTES_MAX);
    Ok(found)
}

/// The number of an operator, and the name of a custom one.
fn code(table: &Table<'_>) -> Read<(i64, Rc<str>)> {
    let (old, new) = (table.scalar::<i8>(0)?, table.scalar::<i32>(3)?);
    let code = i64::from(old).max(i64::from(new));
    let code = if code == NEWER { i64::from(new) } else { code };
    Ok((code, if code == CUSTOM { table.text(1)?.into() } else { "".into() }))
}

/// What a buffer holds: inside of the tables, or behind them.
fn data(table: &Table<'_>, bytes: &Bytes) -> Read<Option<Bytes>> {
    let (start, inside) = table.bytes(0)?;
    if !inside.is_empty() {
        return Ok(Some(bytes.slice(start..start + inside.len())));
    }
    // 1 stands for no place.
    let (offset, size) = (table.scalar::<u64>(1)?, table.scalar::<u64>(2)?);
    match offset > 1 && size > 0 {
        true => behind(bytes, offset, size).map(Some),
        false => Ok(None),
    }
}

fn behind(bytes: &Bytes, offset: u64, size: u64) -> Read<Bytes> {
    let range = || {
        let start = usize::try_from(offset).ok()?;
        let end = start.checked_add(usize::try_from(size).ok()?)?;
        (end <= bytes.len()).then_some(start..end)
    };
    range().map(|range| bytes.slice(range)).ok_or_else(|| {
        wrong(format!("A constant is to be at {offset}, {size} bytes long, outside of the file."))
    })
}

struct Reader<'f> {
    bytes: &'f Bytes,
    codes: Vec<(i64, Rc<str>)>,
    buffers: Vec<Option<Bytes>>,
}

impl Reader<'_> {
    fn graph(&self, number: usize, table: &Table<'_>) -> Read<SubGraph> {
        let tensors =
            table.tables(0)?.iter().map(|table| self.tensor(table)).collect::<Read<Vec<_>>>()?;
        let count = tensors.len();
        let all = |slot| -> Read<Vec<usize>> {
            let found = table.numbers::<i32>(slot)?.into_iter();
            found.map(|index| index_below(index.into(), count)).collect()
        };
        let operators = table.tables(3)?;
        Ok(SubGraph {
            number,
            name: table.text(4)?,
            inputs: all(1)?,
            outputs: all(2)?,
            operators: operators
                .iter()
                .map(|table| self.operator(table, count))
                .collect::<Read<_>>()?,
            tensors,
        })
    }

    fn tensor(&self, table: &Table<'_>) -> Read<Tensor> {
        let name = table.text(3)?;
        let about = |what: &str| wrong(format!("The tensor `{}` {what}.", shown(&name)));
        let sizes = |slot| -> Read<Vec<i64>> {
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

    fn operator(&self, table: &Table<'_>, tensors: usize) -> Read<Operator> {
        let index = table.scalar::<u32>(0)? as usize;
        let (code, custom) = self.codes.get(index).cloned().ok_or_else(|| {
            wrong(format!("A node is to be of operator {index}, which the file does not list."))
        })?;
        let maybe = |slot| -> Read<Vec<Option<usize>>> {
            let all = table.numbers::<i32>(slot)?.into_iter().map(|index| match index {
                -1 => Ok(None),
                index => index_below(index.into(), tensors).map(Some),
            });
            all.collect()
        };
        let outputs = table.numbers::<i32>(2)?.into_iter();
        let second = table.scalar::<u8>(11)? != 0;
        let (offset, size) = (table.scalar::<u64>(9)?, table.scalar::<u64>(10)?);
        let (start, inside) = table.bytes(5)?;
        let custom_options = match offset > 1 && size > 0 {
            true => behind(self.bytes, offset, size)?,
            false => self.bytes.slice(start..start + inside.len()),
        };
        let options = match operators::find(code, &custom).and_then(|operator| operator.options) {
            Some(name) if code == CUSTOM => options::read_custom(name, &custom_options)?,
            Some(name) => options::read(name, table.table(if second { 12 } else { 4 })?)?,
            None => vec![],
        };
        Ok(Operator {
            code,
            custom,
            inputs: maybe(1)?,
            intermediates: maybe(8)?,
            outputs: outputs
                .map(|index| index_below(index.into(), tensors))
                .collect::<Read<_>>()?,
            options,
            custom_options,
        })
    }
}

fn index_below(index: i64, count: usize) -> Read<usize> {
    let found = usize::try_from(index).ok().filter(|index| *index < count);
    found.ok_or_else(|| wrong(format!("There is no tensor {index}: the graph has {count}.")))
}

fn quantization(table: &Table<'_>) -> Read<Option<Quantization>> {
    let scales = table.numbers::<f32>(2)?;
    let blocks = table.scalar::<u8>(4)? != 0;
    if scales.is_empty() && !blocks {
        return Ok(None);
    }
    let axis = usize::try_from(table.scalar::<i32>(6)?).unwrap_or(usize::MAX);
    Ok(Some(Quantization { scales, zeros: table.numbers(3)?, axis, blocks }))
}

fn sparsity(table: &Table<'_>) -> Read<Sparsity> {
    let axes = table.tables(2)?;
    Ok(Sparsity {
        order: table.numbers(0)?,
        blocks: table.numbers(1)?,
        axes: axes.iter().map(sparse_axis).collect::<Read<_>>()?,
    })
}

fn sparse_axis(table: &Table<'_>) -> Read<SparseAxis> {
    if table.scalar::<i8>(0)? == 0 {
        let size = usize::try_from(table.scalar::<i32>(1)?);
        return size.map(SparseAxis::Dense).map_err(|_| wrong("A sparse axis has no size."));
    }
    Ok(SparseAxis::Compressed { segments: vector(table, 2)?, indices: vector(table, 4)? })
}

/// A vector of one of three widths: its kind, then a table around it.
fn vector(table: &Table<'_>, slot: usize) -> Read<Vec<usize>> {
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

fn signature(table: &Table<'_>, graphs: &[SubGraph]) -> Read<Signature> {
    let graph = table.scalar::<u32>(4)? as usize;
    let key = table.text(2)?;
    let count = graphs.get(graph).map(|graph| graph.tensors.len()).ok_or_else(|| {
        wrong(format!("The signature `{}` is of a graph that is missing.", shown(&key)))
    })?;
    let tensors = |slot| -> Read<Vec<(String, usize)>> {
        let entries = table.tables(slot)?;
        let entry = |entry: &Table<'_>| {
            Ok((entry.text(0)?, index_below(entry.scalar::<u32>(1)?.into(), count)?))
        };
        entries.iter().map(entry).collect()
    };
    Ok(Signature { graph, inputs: tensors(0)?, outputs: tensors(1)?, key })
}
