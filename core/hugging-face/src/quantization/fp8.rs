//! Floats of 8 bits: `w s`, where a scale is of a block, of an output, or of all.

use super::{Excepted, real, scales_of_rows, sized, there};
use crate::checkpoint::Checkpoint;
use crate::config::Config;
use crate::layers::checked;
use crate::weight::{Blocks, Scheme};
use onnxd_plugin_sdk::build::Result;
use onnxd_plugin_sdk::ir::{DataType, Tensor};

#[derive(Debug)]
pub(super) struct Fp8 {
    /// Outputs and inputs that share a scale.
    block: Option<[usize; 2]>,
    excepted: [Excepted; 2],
}

impl Fp8 {
    pub(super) fn read(section: &Config) -> Result<Fp8> {
        if section.word("fmt")?.is_some_and(|fmt| fmt != "e4m3") {
            return Err(section.unknown("fmt", "and only floats of the kind e4m3 are read"));
        }
        if section.word("scale_fmt")?.is_some_and(|fmt| fmt != "ue8m0") {
            return Err(section.unknown("scale_fmt", "which is no form of scales that is known"));
        }
        match section.word("activation_scheme")? {
            None | Some("dynamic" | "static") => {}
            Some(_) => return Err(section.unknown("activation_scheme", "which is not known")),
        }
        if section.get("kv_cache_scheme").is_some() {
            return Err(section.unknown("kv_cache_scheme", "and caches stay float"));
        }
        let listed = ["modules_to_not_convert", "ignored_layers"];
        let [one, other] = listed.map(|field| Excepted::read(section, field));
        Ok(Fp8 { block: block_of(section, "weight_block_size")?, excepted: [one?, other?] })
    }
}

/// Sizes of blocks: outputs and inputs; `None` where the field says that there are none.
pub(super) fn block_of(section: &Config, key: &str) -> Result<Option<[usize; 2]>> {
    let wrong = || section.wrong(key, "two whole numbers from 1 on");
    match section.numbers(key)? {
        None if section.has(key) => Ok(None),
        None => Ok(Some([128, 128])),
        Some(sizes) => {
            let size =
                |x: &f64| (x.fract() == 0.0 && (1.0..1e9).contains(x)).then_some(*x as usize);
            let sizes = sizes.iter().map(size).collect::<Option<Vec<_>>>().ok_or_else(wrong)?;
            Ok(Some(<[usize; 2]>::try_from(sizes).map_err(|_| wrong())?))
        }
    }
}

impl Scheme for Fp8 {
    fn linear(&self, w: &Checkpoint, name: &str, sizes: [usize; 2]) -> Result<Option<Blocks>> {
        let weight = format!("{name}.weight");
        let Some(codes) = w.stored(&weight)? else { return Ok(None) };
        if codes.dtype() != DataType::Float8E4M3FN {
            return Ok(None);
        }
        self.excepted.iter().try_for_each(|excepted| excepted.check(w, name))?;
        let inverse = format!("{name}.weight_scale_inv");
        let is_inverse = w.stored(&inverse)?.is_some();
        let scale = if is_inverse { inverse } else { format!("{name}.weight_scale") };
        let codes = sized(&codes, &weight, &sizes)?;
        let (scales, block) = scales(&scale, &there(w, &scale)?, sizes, self.block)?;
        let dtype = DataType::Float8E4M3FN;
        let none = None;
        Ok(Some(Blocks {
            codes,
            dtype,
            block,
            scales,
            zero_points: none,
            offsets: None,
            order: None,
        }))
    }

    fn told(&self) -> &'static str {
        "fp8"
    }
}

/// Scales of so many inputs of each output, from those of all, of each output, or of blocks.
pub(super) fn scales(
    name: &str,
    scales: &Tensor,
    [outputs, inputs]: [usize; 2],
    block: Option<[usize; 2]>,
) -> Result<(Tensor, usize)> {
    let scales = real(scales, name)?;
    if scales.len() == 1 && (scales.rank() < 2 || block.is_none()) {
        let one = checked(name, scales.reshaped([1, 1]))?;
        return Ok((scales_of_rows(name, &one, outputs, outputs)?, inputs));
    }
    if scales.dims() == [outputs] || scales.dims() == [outputs, 1] && block.is_none() {
        return Ok((checked(name, scales.reshaped([outputs, 1]))?, inputs));
    }
    let [rows, columns] = block.unwrap_or([1, inputs]);
    let dims = [outputs.div_ceil(rows), inputs.div_ceil(columns)];
    let scales = sized(&scales, name, &dims)?;
    // Not more rows than there are, so that their number is one of the file's order.
    let rows = rows.min(outputs);
    Ok((scales_of_rows(name, &scales, rows, outputs)?, columns.min(inputs)))
}
