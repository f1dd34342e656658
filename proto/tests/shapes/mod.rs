//! Writes what the fields of each message take in memory, from the same `.proto` files as the messages.

use protox::prost_reflect::prost_types::FileDescriptorSet;
use protox::prost_reflect::{DescriptorPool, FieldDescriptor, Kind, MessageDescriptor};

/// Fields of a message that the walk has marks for.
const FIELDS_MAX: usize = 64;

/// Rust code for all messages of a package.
pub(crate) fn shapes_of(set: &FileDescriptorSet, package: &str) -> String {
    let pool = DescriptorPool::from_file_descriptor_set(set.clone()).unwrap();
    let is_own = |m: &MessageDescriptor| m.package_name() == package && !m.is_map_entry();
    let messages: Vec<MessageDescriptor> = pool.all_messages().filter(is_own).collect();
    let shapes = messages.iter().map(|message| {
        let (name, fields) = (message.name(), fields(message));
        format!(
            "\nimpl Measured for crate::onnxd::{name} {{\n    const SHAPE: Shape = Shape {{\n        \
             name: \"{name}\",\n        bytes: size_of::<Self>(),\n        fields: &[{fields}],\n    \
             }};\n}}\n"
        )
    });
    let all = messages.iter().map(|message| format!("    {},\n", shape(message)));
    format!(
        "// Written by tests/generated.rs.\n{}\n/// All messages.\npub const ALL: [&Shape; {}] = \
         [\n{}];\n",
        shapes.collect::<String>(),
        messages.len(),
        all.collect::<String>(),
    )
}

fn fields(message: &MessageDescriptor) -> String {
    let fields: Vec<FieldDescriptor> = message.fields().collect();
    assert!(fields.len() <= FIELDS_MAX, "{} has {} fields", message.name(), fields.len());
    assert!(fields.is_sorted_by_key(FieldDescriptor::number), "{}", message.name());
    let line = |f: &FieldDescriptor| {
        format!("\n            ({}, {}), // {}", f.number(), kind(f), f.name())
    };
    let lines: String = fields.iter().map(line).collect();
    if lines.is_empty() { lines } else { lines + "\n        " }
}

fn kind(field: &FieldDescriptor) -> String {
    if field.is_map() {
        let Kind::Message(entry) = field.kind() else { panic!("a map of {:?}", field.kind()) };
        let [key, value] = [entry.map_entry_key_field(), entry.map_entry_value_field()]
            .map(|field| held(&field.kind()));
        return format!(
            "FieldKind::Map(&Shape {{ name: \"{}\", bytes: size_of::<({key}, {value})>(), fields: &[(1, \
             {}), (2, {})] }})",
            field.name(),
            kind(&entry.map_entry_key_field()),
            kind(&entry.map_entry_value_field()),
        );
    }
    match (field.kind(), field.is_list()) {
        (Kind::Message(of), true) => format!("FieldKind::Messages({})", shape(&of)),
        (Kind::Message(of), false) => format!("FieldKind::Message({})", shape(&of)),
        (Kind::String | Kind::Bytes, true) => "FieldKind::Texts".into(),
        (Kind::String | Kind::Bytes, false) => "FieldKind::Text".into(),
        (_, false) => "FieldKind::Number".into(),
        (number, true) => {
            let encoded = match number {
                Kind::Double | Kind::Fixed64 | Kind::Sfixed64 => "Some(8)",
                Kind::Float | Kind::Fixed32 | Kind::Sfixed32 => "Some(4)",
                _ => "None",
            };
            let held = held(&number);
            format!("FieldKind::Numbers {{ held: size_of::<{held}>(), encoded: {encoded} }}")
        }
    }
}

fn shape(message: &MessageDescriptor) -> String {
    format!("&<crate::onnxd::{} as Measured>::SHAPE", message.name())
}

/// The type of a value in memory.
fn held(kind: &Kind) -> &'static str {
    match kind {
        Kind::Double => "f64",
        Kind::Float => "f32",
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 | Kind::Enum(_) => "i32",
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => "i64",
        Kind::Uint32 | Kind::Fixed32 => "u32",
        Kind::Uint64 | Kind::Fixed64 => "u64",
        Kind::Bool => "bool",
        Kind::String => "String",
        Kind::Bytes => "Bytes",
        Kind::Message(_) => panic!("a map of messages: the walk needs its shape"),
    }
}
