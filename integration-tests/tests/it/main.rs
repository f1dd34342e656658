//! Tests of the built program and of the repository, in one program: it is linked once.
//!
//! They run in threads of one process, several at a time. So a test changes nothing that all of them share, such as the
//! environment, the current folder or signals, and it does not judge its own process.

mod architectures;
mod bad_input;
mod bombs;
mod calibration;
mod checkpoint_arrival;
mod conversions;
mod corpus;
mod daemon;
mod dependencies;
mod droppers;
mod drops;
mod escapes;
mod first_steps;
mod floods;
mod foreign_names;
mod full_disk;
mod health;
mod hostile;
mod hostile_models;
mod hostile_tensorflow;
mod hostile_torch;
mod hugging_face;
mod installation;
mod kill;
mod latency;
mod layers;
mod licences;
mod manual;
mod many_drops;
mod memory;
mod module_circles;
mod n2d2;
mod n2d2_integers;
mod names;
mod notices;
mod operators;
mod owned_files;
mod packed_jobs;
mod params;
mod pictures;
mod plugins;
mod progress;
mod quality;
mod quantizers;
mod resolution;
mod site;
mod source_forms;
mod tensorflow;
mod terminal;
mod tidy;
mod torch;
