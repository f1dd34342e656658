//! Families of encoders, a file each: what of `config.json` they read, how they call their weights, and what they do
//! otherwise than BERT.

mod albert;
mod base;
mod bert;
mod deberta;
mod distilbert;
mod early_norm;
mod electra;
mod modernbert;
mod mpnet;
mod roberta;

use crate::config::Config;
use crate::diag::{Code, Diagnostic, shown};
use crate::encoder::{Encoder, Pretraining, TASKS, Task};
use crate::fields;

/// Describes the encoder of a `config.json`.
type Describe = fn(&Config) -> Result<Encoder, Diagnostic>;

/// A family by its `model_type`: what names of its classes begin with, and what it is.
#[derive(Clone, Copy)]
pub(crate) struct Family {
    name: &'static str,
    classes: &'static [&'static str],
    describe: Describe,
}

/// Classes that differ in their names.
const ROBERTA: &[&str] = &["Roberta", "XLMRoberta", "Camembert"];

const fn family(
    name: &'static str,
    classes: &'static [&'static str],
    describe: Describe,
) -> Family {
    Family { name, classes, describe }
}

const FAMILIES: &[Family] = &[
    family("albert", &["Albert"], albert::albert),
    family("bert", &["Bert"], bert::bert),
    family("camembert", ROBERTA, roberta::xlm_roberta),
    family("data2vec-text", &["Data2VecText"], roberta::data2vec),
    family("deberta", &["Deberta"], deberta::v1),
    family("deberta-v2", &["DebertaV2"], deberta::v2),
    family("distilbert", &["DistilBert"], distilbert::distilbert),
    family("electra", &["Electra"], electra::electra),
    family("ernie", &["Ernie"], bert::ernie),
    family("megatron-bert", &["MegatronBert"], early_norm::megatron),
    family("modernbert", &["ModernBert"], modernbert::modernbert),
    family("mpnet", &["MPNet"], mpnet::mpnet),
    family("roberta", ROBERTA, roberta::roberta),
    family("roberta-prelayernorm", &["RobertaPreLayerNorm"], early_norm::prelayernorm),
    family("xlm-roberta", ROBERTA, roberta::xlm_roberta),
    family("xlm-roberta-xl", &["XLMRobertaXL"], early_norm::xlm_roberta_xl),
];

/// The family of this name.
pub(crate) fn named(kind: &str) -> Option<Family> {
    FAMILIES.iter().find(|family| family.name == kind).copied()
}

impl Family {
    /// The encoder that the fields of `config` describe, with the head of the task that is asked for, or of the class.
    pub(crate) fn describe(&self, c: &Config, asked: Option<&str>) -> Result<Encoder, Diagnostic> {
        let mut e = (self.describe)(c)?;
        e.tasks.labels = fields::labels(c)?;
        let classes = c.words("architectures")?.unwrap_or_default();
        e.task = match (asked, classes.first()) {
            (Some(word), _) => self.asked(word, &e)?,
            (None, Some(class)) => self.of_class(class, &e).ok_or_else(|| {
                c.unknown(
                    "architectures",
                    "which is no class that is known; `source.task` names another head",
                )
            })?,
            (None, None) => Task::Features,
        };
        if e.task == Task::QuestionAnswering && e.tasks.labels != 2 {
            return Err(c.wrong("id2label", "two labels, for begins and ends of answers"));
        }
        Ok(e)
    }

    fn has(&self, task: Task, e: &Encoder) -> bool {
        match (task, &e.tasks.pretraining) {
            (Task::Pretraining, pretraining) => !matches!(pretraining, Pretraining::None),
            (Task::NextSentence, Pretraining::Words { are_next, .. }) => *are_next,
            (Task::NextSentence, _) => false,
            _ => true,
        }
    }

    fn of_class(&self, class: &str, e: &Encoder) -> Option<Task> {
        let ends = self.classes.iter().filter_map(|begin| class.strip_prefix(begin));
        let tasks = ends.filter_map(|end| TASKS.iter().find(|(.., known)| *known == end));
        tasks.map(|(task, ..)| *task).find(|task| self.has(*task, e))
    }

    fn asked(&self, word: &str, e: &Encoder) -> Result<Task, Diagnostic> {
        let known = TASKS.iter().filter(|(task, ..)| self.has(*task, e));
        if let Some((task, ..)) = known.clone().find(|(_, name, _)| *name == word) {
            return Ok(*task);
        }
        let names: Vec<String> = known.map(|(_, name, _)| format!("`{name}`")).collect();
        let (word, name) = (shown(word), self.name);
        let message = format!("`source.task` is `{word}`, which models of `{name}` do not have");
        Err(Diagnostic::new(Code::ParamsBadValue, message)
            .help(format!("It has {}.", names.join(", "))))
    }
}

#[cfg(test)]
mod tests;
