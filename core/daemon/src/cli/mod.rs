//! The command line: one file per command. Everything that is printed is printed here.

mod check;
mod compare;
mod context;
mod convert;
mod ctl;
mod demo;
mod doctor;
mod drop_options;
mod eval;
mod explain;
mod failure;
mod init;
mod jobs;
mod layout;
mod logged;
mod once;
mod out;
mod place;
mod plugins;
mod print;
mod progress;
mod report;
mod run;
mod scratch;

use clap::{Parser, Subcommand};
use failure::Failure;
use std::process::ExitCode;

/// What a command ends with: its exit status, or why it failed.
type Ended = Result<u8, Failure>;

/// Exit status of a command that found something.
const FINDINGS: u8 = 1;

const AFTER_HELP: &str = "\
Exit status: 0 done; 1 done with findings; 2 bad input or usage; 3 unsupported operator or feature;
4 internal error; 75 try again later; 78 configuration error.";

/// Converts neural networks to ONNX: a daemon that watches a folder, and the same as commands.
#[derive(Parser)]
#[command(name = "onnxd", version, after_help = AFTER_HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Demo(demo::Demo),
    Init(init::Init),
    Run(run::Run),
    Once(once::Once),
    Convert(Box<convert::Convert>),
    Check(check::Check),
    Eval(eval::Eval),
    Print(print::Print),
    Compare(compare::Compare),
    Explain(explain::Explain),
    #[command(subcommand)]
    Plugins(plugins::Plugins),
    Jobs(jobs::Jobs),
    Ctl(ctl::Ctl),
    Report(report::Report),
    Doctor(doctor::Doctor),
    #[command(name = plugins::conformance::SUBCOMMAND, hide = true)]
    Conformance(plugins::conformance::Conformance),
    /// The confined process that converts; onnxd starts it by itself.
    #[command(name = onnxd_worker::confine::SUBCOMMAND, hide = true)]
    Worker {
        /// Descriptor of the link.
        fd: String,
        /// How it is confined.
        mode: String,
    },
}

/// Runs the command that the process was started with.
pub(crate) fn main() -> ExitCode {
    let ended = match Cli::parse().command {
        Command::Worker { fd, mode } => return onnxd_worker::worker_main(&fd, &mode),
        Command::Conformance(c) => return c.run(),
        Command::Demo(c) => c.run(),
        Command::Init(c) => c.run(),
        Command::Run(c) => c.run(),
        Command::Once(c) => c.run(),
        Command::Jobs(c) => c.run(),
        Command::Ctl(c) => c.run(),
        Command::Convert(c) => c.run(),
        Command::Check(c) => c.run(),
        Command::Eval(c) => c.run(),
        Command::Print(c) => c.run(),
        Command::Compare(c) => c.run(),
        Command::Explain(c) => c.run(),
        Command::Plugins(c) => c.run(),
        Command::Report(c) => c.run(),
        Command::Doctor(c) => c.run(),
    };
    ExitCode::from(ended.unwrap_or_else(|failure| failure.show()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_and_argument_has_help() {
        fn check(command: &clap::Command) {
            assert!(command.get_about().is_some(), "{}", command.get_name());
            for argument in command.get_arguments() {
                let id = argument.get_id();
                assert!(argument.get_help().is_some(), "{} {id}", command.get_name());
            }
            command.get_subcommands().for_each(check);
        }
        check(&Cli::command());
    }
}
