//! Models in numbered files: `NAME-00001-of-00003.gguf`.

use super::metadata::Metadata;
use super::tensors::Stored;
use super::{MAGIC, Read, read};
use crate::beside::GGUF;
use crate::diag::{Diagnostic, shown};
use crate::folder;
use crate::problem::{damaged, over_limit};
use onnxd_plugin_sdk::{Claim, Probe, Submission};
use std::collections::HashSet;

/// Files of a model.
const PARTS_MAX: usize = 10_000;

/// Digits of a number in a name.
const DIGITS: usize = 5;

/// The name of a part.
struct Part<'n> {
    stem: &'n str,
    /// As it is written.
    ending: &'n str,
    number: usize,
    count: usize,
}

impl Part<'_> {
    fn of(file: &str) -> Option<Part<'_>> {
        let number = |digits: &str| {
            let is_number = digits.len() == DIGITS && digits.bytes().all(|b| b.is_ascii_digit());
            is_number.then(|| digits.parse::<usize>().ok())?
        };
        let at = file.len().checked_sub(GGUF.len()).filter(|_| folder::ends(file, GGUF))?;
        let (name, ending) = file.split_at(at);
        let (rest, count) = name.rsplit_once("-of-")?;
        let (stem, digits) = rest.rsplit_once('-')?;
        let (number, count) = (number(digits)?, number(count)?);
        (1..=count).contains(&number).then_some(Part { stem, ending, number, count })
    }

    fn name(&self, number: usize) -> String {
        format!("{}-{number:05}-of-{:05}{}", self.stem, self.count, self.ending)
    }
}

/// Whether the network is a file of GGUF, and which others belong to it.
pub(crate) fn probe(submission: &Submission) -> Result<Probe, Diagnostic> {
    let network = submission.network();
    if folder::has_weights(submission) && folder::has(submission, folder::CONFIG) {
        let why = "beside it is the model in files of safetensors, which are read";
        return Ok(Probe::new(Claim::No, why));
    }
    let begins = submission.look(network, |bytes| bytes.starts_with(MAGIC))?;
    let part = Part::of(network);
    let mut last = part.as_ref().map_or(0, |part| part.count);
    if let Some(part) = part.as_ref().filter(|part| part.number > 1) {
        let first = part.name(1);
        // The first part, once it is there, needs all others.
        last = 1;
        if submission.has(&first) {
            let why =
                format!("the file is part {} of the model that begins with another", part.number);
            return Ok(Probe::new(Claim::No, why));
        }
    }
    let numbers = part.iter().flat_map(|part| (1..=last).map(|number| part.name(number)));
    let numbers = numbers.filter(|path| path != network).take(PARTS_MAX);
    let needs = numbers.map(|path| folder::need(submission, "part of the model", path, false));
    let texts = folder::texts(submission).into_iter();
    let texts = texts.map(|path| folder::need(submission, "part", path, true));
    let needs = needs.chain(texts).collect();
    // The import says what is wrong with a file that begins otherwise.
    let (claim, reason) = match begins {
        true => (Claim::ByContent, "the file begins as those of GGUF do"),
        false => (Claim::ByExtension, "the file's name is one of GGUF"),
    };
    Ok(Probe { needs, ..Probe::new(claim, reason) })
}

/// Reads all files of a model: the metadata of the first one, and the tensors of all.
pub(super) fn open(submission: &Submission) -> Result<Read, Diagnostic> {
    let network = submission.network();
    let name = |path: &str| path[path.rfind('/').map_or(0, |at| at + 1)..].to_owned();
    let part = Part::of(network);
    let first = part.as_ref().map_or(network.to_owned(), |part| part.name(1));
    let mut all = read(&name(&first), &submission.read(&first)?)?;
    let said = all.metadata.size("split.count")?.filter(|count| *count > 1);
    let total = all.metadata.size("split.tensors.count")?;
    let count = part.as_ref().map_or(1, |part| part.count);
    if said.is_some_and(|said| said != count) {
        let must = format!("{count}, as its name says (`NAME-00001-of-00003.gguf`)");
        return Err(all.metadata.wrong("split.count", &must));
    }
    if count > PARTS_MAX {
        return Err(over_limit(format!("the model has {count} files, of {PARTS_MAX} at most")));
    }
    check_number(&all.metadata, 1)?;
    let mut known: HashSet<String> = all.tensors.iter().map(|stored| stored.name.clone()).collect();
    for number in 2..=count {
        let Some(part) = &part else { break };
        let path = part.name(number);
        let read = read(&name(&path), &submission.read(&path)?)?;
        check_number(&read.metadata, number)?;
        if let Some(Stored { name: tensor, .. }) =
            read.tensors.iter().find(|stored| !known.insert(stored.name.clone()))
        {
            let (file, tensor) = (name(&path), shown(tensor));
            let why = format!("`{file}`: tensor `{tensor}` is in a file before it, too");
            return Err(damaged(why));
        }
        all.tensors.extend(read.tensors);
    }
    match total {
        Some(total) if said.is_some() && total != all.tensors.len() => {
            let must = format!("{}, which is how many the files have", all.tensors.len());
            Err(all.metadata.wrong("split.tensors.count", &must))
        }
        _ => Ok(all),
    }
}

/// That a file is the part that its name says.
fn check_number(metadata: &Metadata, number: usize) -> Result<(), Diagnostic> {
    match metadata.size("split.no")? {
        Some(found) if found.checked_add(1) != Some(number) => {
            Err(metadata.wrong("split.no", &format!("{}, as its name says", number - 1)))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::Part;

    #[test]
    fn names_of_parts() {
        let part = Part::of("a/m-q4-00002-of-00003.gguf").unwrap();
        assert_eq!((part.stem, part.number, part.count), ("a/m-q4", 2, 3));
        assert_eq!(part.name(1), "a/m-q4-00001-of-00003.gguf");
        assert_eq!(Part::of("M-00002-of-00003.GGUF").unwrap().name(1), "M-00001-of-00003.GGUF");
        for other in [
            "m.gguf", "m-00004-of-00003.gguf", "m-00000-of-00003.gguf", "m-1-of-3.gguf",
            "m-00001-of-00003.bin", "m-+0001-of-00003.gguf", "-of-.gguf",
        ] {
            assert!(Part::of(other).is_none(), "{other}");
        }
    }
}
