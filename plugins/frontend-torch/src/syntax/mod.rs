//! What printed code says: the tree of its statements and expressions, and types. The parser makes it (`script`), and
//! the machine's objects have classes and functions of it.

pub(crate) mod ast;
pub(crate) mod types;
