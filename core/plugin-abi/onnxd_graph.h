/* onnxd_graph.h: graphs for plugins in C, without a protobuf library.
 *
 * Include it in one file of the plugin, which ends with OG_EXPORT; all functions are static. A graph is opened from the
 * bytes of an ONNX ModelProto or made new, changed, and encoded again. What is not touched keeps its bytes.
 *
 *     og *g = og_open(model);
 *     for (size_t i = 0; i < og_nodes(g); i++)
 *       if (og_is(og_op(og_node(g, i)), "Identity")) ...
 *     onnxd_str out = og_encoded(g);
 *     og_close(g);
 *
 * Texts and bytes that come out of a graph are valid until og_close. When memory runs out, functions that return
 * pointers return NULL and og_encoded an empty text; every function takes such a NULL and does nothing. */
#ifndef ONNXD_GRAPH_H
#define ONNXD_GRAPH_H

#include "onnxd_message.h"

/* The host's functions, from the time on that it calls `entry`. */
OG_API const onnxd_host *og_host;

/* TensorProto.DataType */
enum { OG_FLOAT = 1, OG_UINT8 = 2, OG_INT8 = 3, OG_INT32 = 6, OG_INT64 = 7, OG_BOOL = 9, OG_DOUBLE = 11 };
/* Field numbers of ONNX's messages, for og_get and the like. */
enum {
  OG_MODEL_IR_VERSION = 1, OG_MODEL_DOC = 6, OG_MODEL_GRAPH = 7, OG_MODEL_OPSET = 8, OG_MODEL_METADATA = 14,
  OG_MODEL_FUNCTION = 25, OG_FUNCTION_NAME = 1, OG_FUNCTION_INPUT = 4, OG_FUNCTION_OUTPUT = 5, OG_FUNCTION_NODE = 7,
  OG_FUNCTION_OPSET = 9, OG_FUNCTION_DOMAIN = 10,
  OG_GRAPH_NODE = 1, OG_GRAPH_NAME = 2, OG_GRAPH_INITIALIZER = 5, OG_GRAPH_INPUT = 11, OG_GRAPH_OUTPUT = 12,
  OG_NODE_INPUT = 1, OG_NODE_OUTPUT = 2, OG_NODE_NAME = 3, OG_NODE_OP = 4, OG_NODE_ATTRIBUTE = 5,
  OG_NODE_DOMAIN = 7, OG_NODE_METADATA = 9,
  OG_ATTR_NAME = 1, OG_ATTR_F = 2, OG_ATTR_I = 3, OG_ATTR_S = 4, OG_ATTR_INTS = 8, OG_ATTR_TYPE = 20,
  OG_TENSOR_DIMS = 1, OG_TENSOR_TYPE = 2, OG_TENSOR_NAME = 8, OG_TENSOR_EXTERNAL = 13, OG_TENSOR_LOCATION = 14
};

/* ---- Graphs ---- */

/* Opens an encoded model, whose bytes must outlive it; NULL if it is none. */
OG_API og *og_open(onnxd_str model) {
  og *g = (og *)calloc(1, sizeof(og));
  if (g) g->model = og_parse(g, model);
  if (g && g->model) g->graph = og_sub(g, og_get(g->model, OG_MODEL_GRAPH, 0));
  return g && g->graph ? g : (og_close(g), NULL);
}

/* An empty model for a version of the standard's operators. */
OG_API og *og_new(const char *name, int64_t opset) {
  og *g = (og *)calloc(1, sizeof(og));
  if (g) g->model = og_msg_new(g);
  if (!g || !g->model) return og_close(g), NULL;
  og_add_int(g, g->model, OG_MODEL_IR_VERSION, 8);
  og_add_int(g, og_add_msg(g, g->model, OG_MODEL_OPSET), 2, opset);
  g->graph = og_add_msg(g, g->model, OG_MODEL_GRAPH);
  og_add_bytes(g, g->graph, OG_GRAPH_NAME, og_text(name));
  return g->graph ? g : (og_close(g), NULL);
}

OG_API onnxd_str og_encoded(og *g) { return og_message(g, g ? g->model : NULL); }

OG_API size_t og_nodes(og *g) { return g ? og_count(g->graph, OG_GRAPH_NODE) : 0; }
OG_API og_msg *og_node(og *g, size_t i) { return g ? og_sub(g, og_get(g->graph, OG_GRAPH_NODE, i)) : NULL; }
OG_API onnxd_str og_op(og_msg *node) { return og_bytes(node, OG_NODE_OP, 0); }
/* Empty for the standard's operators. */
OG_API onnxd_str og_domain(og_msg *node) { return og_bytes(node, OG_NODE_DOMAIN, 0); }
OG_API size_t og_inputs(og_msg *node) { return og_count(node, OG_NODE_INPUT); }
OG_API onnxd_str og_input(og_msg *node, size_t i) { return og_bytes(node, OG_NODE_INPUT, i); }
OG_API onnxd_str og_output(og_msg *node, size_t i) { return og_bytes(node, OG_NODE_OUTPUT, i); }
OG_API void og_remove_node(og *g, size_t i) { og_remove(g ? g->graph : NULL, OG_GRAPH_NODE, i); }

/* A new node at the end of a message of nodes: the graph, or a function (OG_FUNCTION_NODE). */
OG_API og_msg *og_put_node(og *g, og_msg *in, uint32_t number, const char *op, const char *const *inputs,
                           const char *const *outputs) {
  og_msg *node = og_add_msg(g, in, number);
  for (; *inputs; inputs++) og_add_bytes(g, node, OG_NODE_INPUT, og_text(*inputs));
  for (size_t i = 0; outputs[i]; i++) og_add_bytes(g, node, OG_NODE_OUTPUT, og_text(outputs[i]));
  og_add_bytes(g, node, OG_NODE_NAME, og_text(outputs[0]));
  og_add_bytes(g, node, OG_NODE_OP, og_text(op));
  return node;
}

/* A new node at the end; lists of names end with NULL. Nodes must be in an order in which they can be computed. */
OG_API og_msg *og_add_node(og *g, const char *op, const char *const *inputs, const char *const *outputs) {
  return og_put_node(g, g ? g->graph : NULL, OG_GRAPH_NODE, op, inputs, outputs);
}

/* Makes a node one of another domain than the standard's, of which the model then has version 1 if it had none. */
OG_API void og_set_domain(og *g, og_msg *node, const char *domain) {
  if (!node) return;
  og_add_bytes(g, node, OG_NODE_DOMAIN, og_text(domain));
  for (size_t i = 0; i < og_count(g->model, OG_MODEL_OPSET); i++)
    if (og_is(og_bytes(og_sub(g, og_get(g->model, OG_MODEL_OPSET, i)), 1, 0), domain)) return;
  og_msg *opset = og_add_msg(g, g->model, OG_MODEL_OPSET);
  og_add_bytes(g, opset, 1, og_text(domain));
  og_add_int(g, opset, 2, 1);
}

/* A new local function; lists of names end with NULL. og_function_node adds its nodes, and a node of this domain and
 * name applies it. The model must be of version 8 of the file format or newer. */
OG_API og_msg *og_add_function(og *g, const char *domain, const char *name, const char *const *inputs,
                               const char *const *outputs) {
  og_msg *function = og_add_msg(g, g ? g->model : NULL, OG_MODEL_FUNCTION);
  og_add_bytes(g, function, OG_FUNCTION_NAME, og_text(name));
  og_add_bytes(g, function, OG_FUNCTION_DOMAIN, og_text(domain));
  for (; *inputs; inputs++) og_add_bytes(g, function, OG_FUNCTION_INPUT, og_text(*inputs));
  for (; *outputs; outputs++) og_add_bytes(g, function, OG_FUNCTION_OUTPUT, og_text(*outputs));
  for (size_t i = 0; function && i < og_count(g->model, OG_MODEL_OPSET); i++) {
    og_msg *opset = og_sub(g, og_get(g->model, OG_MODEL_OPSET, i));
    og_add_bytes(g, function, OG_FUNCTION_OPSET, og_message(g, opset));
  }
  return function;
}

OG_API og_msg *og_function_node(og *g, og_msg *function, const char *op, const char *const *inputs,
                                const char *const *outputs) {
  return og_put_node(g, function, OG_FUNCTION_NODE, op, inputs, outputs);
}

/* A new node before node `at`, from the same layers of the source: part of what computes the outputs of node `at` from
 * now on. */
OG_API og_msg *og_stand_in(og *g, size_t at, const char *op, const char *const *inputs, const char *const *outputs) {
  og_msg *node = og_add_node(g, op, inputs, outputs);
  if (!node) return NULL;
  OG_EACH(f, og_node(g, at), OG_NODE_METADATA) og_add_bytes(g, node, OG_NODE_METADATA, f->bytes);
  og_field *to = og_get(g->graph, OG_GRAPH_NODE, at), *last = &g->graph->fields[g->graph->count - 1], moved = *last;
  if (!to) return node;
  memmove(to + 1, to, (size_t)(last - to) * sizeof *to);
  *to = moved;
  return node;
}

/* A name that ends with a zero byte: a text of the graph, and a suffix. */
OG_API const char *og_name(og *g, onnxd_str text, const char *suffix) {
  char *name = (char *)og_alloc(g, text.len + strlen(suffix) + 1);
  if (!name) return NULL;
  if (text.len) memcpy(name, text.ptr, text.len);
  strcpy(name + text.len, suffix);
  return name;
}

/* Nodes of the main graph that read `old` read `by`; how many places that were. Sub-graphs and outputs of the graph
 * are left alone: og_read_elsewhere tells whether they read a value. */
OG_API size_t og_redirect(og *g, onnxd_str old, onnxd_str by) {
  size_t places = 0;
  OG_EACH(f, g ? g->graph : NULL, OG_GRAPH_NODE)
  OG_EACH(input, og_sub(g, f), OG_NODE_INPUT)
  if (og_same(input->bytes, old)) input->bytes = by, places++;
  return places;
}

/* Whether `value` is an output of the graph, or may be read in a sub-graph: its name occurs in an attribute. */
OG_API int og_read_elsewhere(og *g, onnxd_str value) {
  og_msg *graph = g ? g->graph : NULL;
  OG_EACH(f, graph, OG_GRAPH_OUTPUT) if (og_same(og_bytes(og_sub(g, f), 1, 0), value)) return 1;
  OG_EACH(f, graph, OG_GRAPH_NODE)
  OG_EACH(attribute, og_sub(g, f), OG_NODE_ATTRIBUTE)
  for (size_t at = 0; at + value.len <= attribute->bytes.len; at++)
    if (memcmp(attribute->bytes.ptr + at, value.ptr, value.len) == 0) return 1;
  return 0;
}

/* An attribute by its name; NULL if the node has none. */
OG_API og_msg *og_attr(og *g, og_msg *node, const char *name) {
  OG_EACH(f, node, OG_NODE_ATTRIBUTE) if (og_is(og_bytes(og_sub(g, f), OG_ATTR_NAME, 0), name)) return f->msg;
  return NULL;
}

OG_API int64_t og_attr_int(og *g, og_msg *node, const char *name, int64_t otherwise) {
  og_field *f = og_get(og_attr(g, node, name), OG_ATTR_I, 0);
  return f ? (int64_t)f->value : otherwise;
}

OG_API float og_attr_float(og *g, og_msg *node, const char *name, float otherwise) {
  og_field *f = og_get(og_attr(g, node, name), OG_ATTR_F, 0);
  if (f && f->bytes.len == sizeof(float)) memcpy(&otherwise, f->bytes.ptr, sizeof(float));
  return otherwise;
}

OG_API og_msg *og_new_attr(og *g, og_msg *node, const char *name, int64_t type) {
  og_msg *attr = og_add_msg(g, node, OG_NODE_ATTRIBUTE);
  og_add_bytes(g, attr, OG_ATTR_NAME, og_text(name));
  og_add_int(g, attr, OG_ATTR_TYPE, type);
  return attr;
}

OG_API void og_set_int(og *g, og_msg *node, const char *name, int64_t value) {
  og_add_int(g, og_new_attr(g, node, name, 2), OG_ATTR_I, value);
}

OG_API void og_set_ints(og *g, og_msg *node, const char *name, const int64_t *values, size_t count) {
  og_msg *attr = og_new_attr(g, node, name, 7);
  for (size_t i = 0; i < count; i++) og_add_int(g, attr, OG_ATTR_INTS, values[i]);
}

OG_API void og_set_float(og *g, og_msg *node, const char *name, float value) {
  og_msg *attr = og_new_attr(g, node, name, 1);
  onnxd_str bytes = {(const uint8_t *)&value, sizeof value};
  og_add_bytes(g, attr, OG_ATTR_F, bytes);
  if (attr) attr->fields[attr->count - 1].wire = OG_FIXED32;
}

/* An input or output (OG_GRAPH_INPUT, OG_GRAPH_OUTPUT) of the graph; a size below 0 is any. */
OG_API void og_add_value(og *g, uint32_t role, const char *name, int32_t dtype, const int64_t *dims, size_t rank) {
  og_msg *value = og_add_msg(g, g ? g->graph : NULL, role);
  og_add_bytes(g, value, 1, og_text(name));
  og_msg *tensor = og_add_msg(g, og_add_msg(g, value, 2), 1);
  og_add_int(g, tensor, 1, dtype);
  og_msg *shape = og_add_msg(g, tensor, 2);
  for (size_t i = 0; i < rank; i++) {
    og_msg *dim = og_add_msg(g, shape, 1);
    if (dims[i] >= 0) og_add_int(g, dim, 1, dims[i]);
  }
}

/* ---- Tensors: the host keeps the data, the graph a handle ---- */

/* The id of an initializer's data; 0 if it has none there. */
OG_API uint64_t og_handle(og *g, og_msg *initializer) {
  uint64_t id = 0;
  OG_EACH(f, initializer, OG_TENSOR_EXTERNAL) {
    onnxd_str digits = og_bytes(og_sub(g, f), 2, 0);
    if (!og_is(og_bytes(f->msg, 1, 0), ONNXD_HANDLE_KEY)) continue;
    for (size_t k = 0; k < digits.len; k++) id = id * 10 + (digits.ptr[k] - '0');
  }
  return id;
}

/* Lets an initializer have the data of another tensor of the host. */
OG_API void og_set_handle(og *g, og_msg *initializer, uint64_t id) {
  char digits[24];
  snprintf(digits, sizeof digits, "%llu", (unsigned long long)id);
  while (og_get(initializer, OG_TENSOR_EXTERNAL, 0)) og_remove(initializer, OG_TENSOR_EXTERNAL, 0);
  while (og_get(initializer, OG_TENSOR_LOCATION, 0)) og_remove(initializer, OG_TENSOR_LOCATION, 0);
  og_msg *entry = og_add_msg(g, initializer, OG_TENSOR_EXTERNAL);
  og_add_bytes(g, entry, 1, og_text(ONNXD_HANDLE_KEY));
  og_add_bytes(g, entry, 2, og_text(digits));
  og_add_int(g, initializer, OG_TENSOR_LOCATION, 1);
}

/* A new initializer with a copy of `data`, whose size dtype and dims tell. */
OG_API onnxd_status og_add_tensor(og *g, const onnxd_job *job, const char *name,
                                  int32_t dtype, const int64_t *dims, size_t rank, const void *data, size_t bytes) {
  onnxd_tensor desc;
  memset(&desc, 0, sizeof desc);
  desc.struct_size = sizeof desc, desc.dtype = (uint32_t)dtype, desc.rank = (uint32_t)rank;
  desc.dims = dims, desc.nbytes = bytes;
  uint64_t id;
  void *room;
  onnxd_status status = og_host->tensor_new(job, &desc, &id, &room);
  if (status != ONNXD_OK) return status;
  memcpy(room, data, bytes);
  og_msg *tensor = og_add_msg(g, g ? g->graph : NULL, OG_GRAPH_INITIALIZER);
  for (size_t i = 0; i < rank; i++) og_add_int(g, tensor, OG_TENSOR_DIMS, dims[i]);
  og_add_int(g, tensor, OG_TENSOR_TYPE, dtype);
  og_add_bytes(g, tensor, OG_TENSOR_NAME, og_text(name));
  og_set_handle(g, tensor, id);
  return tensor ? og_host->tensor_seal(job, id) : ONNXD_OUT_OF_MEMORY;
}

/* ---- Calls of the host ---- */

OG_API onnxd_status og_fail(onnxd_err *err, onnxd_status status, const char *why) {
  if (err && err->ptr) {
    err->len = strlen(why) < err->cap ? strlen(why) : err->cap;
    memcpy(err->ptr, why, err->len);
  }
  return status;
}

/* Whether the params of `create` name a component; for libraries with few of them. */
OG_API int og_names(onnxd_str params, const char *id) {
  size_t len = strlen(id);
  for (size_t i = 1; i + len < params.len; i++)
    if (memcmp(params.ptr + i, id, len) == 0 && params.ptr[i - 1] == '"' && params.ptr[i + len] == '"') return 1;
  return 0;
}

/* Hands over a message under one of the names ONNXD_ARTIFACT_*. */
OG_API onnxd_status og_report(og *g, const onnxd_job *job, const char *name, const og_msg *m) {
  onnxd_str bytes = og_message(g, m);
  if (!bytes.ptr) return ONNXD_OUT_OF_MEMORY;
  return og_host->artifact(job, og_text(name), og_text("application/x-protobuf"), bytes);
}

/* Hands over what a pass did: the graph if it changed something, and the log. */
OG_API onnxd_status og_passed(og *g, const onnxd_job *job, const char *pass, int64_t rewrites) {
  onnxd_str model = og_encoded(g);
  if (!model.ptr) return ONNXD_OUT_OF_MEMORY;
  onnxd_status status = rewrites > 0 ? og_host->graph_put(job, model) : ONNXD_OK;
  og_msg *log = og_msg_new(g), *row = og_add_msg(g, log, 1);
  og_add_bytes(g, row, 1, og_text(pass));
  og_add_int(g, row, 2, rewrites);
  return status == ONNXD_OK ? og_report(g, job, ONNXD_ARTIFACT_PASS_LOG, log) : status;
}

/* The network of the submission, mapped. */
OG_API onnxd_status og_network(const onnxd_job *job, onnxd_str *out) {
  onnxd_str submission;
  onnxd_status status = og_host->submission(job, &submission);
  if (status != ONNXD_OK) return status;
  og *g = og_new("", 1);
  og_msg *m = og_parse(g, submission);
  onnxd_bytes file = {sizeof(onnxd_bytes), 0, NULL, 0, 0};
  status = m ? og_host->input_map(job, og_bytes(m, 2, 0), &file) : ONNXD_INTERNAL;
  out->ptr = file.ptr, out->len = file.len;
  og_close(g);
  return status;
}

/* Answers a probe: 0 not mine, 1 by the name, 2 by the content. */
OG_API onnxd_status og_probed(const onnxd_job *job, int64_t claim, const char *reason) {
  og *g = og_new("", 1);
  og_msg *probe = og_msg_new(g);
  og_add_int(g, probe, 1, claim);
  og_add_bytes(g, probe, 2, og_text(reason));
  onnxd_status status = og_report(g, job, ONNXD_ARTIFACT_PROBE, probe);
  og_close(g);
  return status;
}

OG_API void og_nothing(void *inst) { (void)inst; }

OG_API const void *og_no_extension(onnxd_str name) { return (void)name, NULL; }

/* Exports the plugin: its id, version and descriptor (TOML) as literals, and its functions. Instances are not freed, so
 * `create` answers with static ones. EXTENSION is og_no_extension, or knows ONNXD_EXTENSION_PROBE. */
#define OG_EXPORT(ID, VERSION, DESCRIPTOR, CREATE, RUN, EXTENSION) \
  static const onnxd_plugin og_plugin = {sizeof(onnxd_plugin), 0, CREATE, RUN, og_nothing, EXTENSION}; \
  static const onnxd_plugin *og_entry(const onnxd_host *host) { \
    if (!host || host->struct_size < offsetof(onnxd_host, metric)) return NULL; \
    og_host = host; \
    return &og_plugin; \
  } \
  const onnxd_header onnxd_plugin_header = { \
      .magic = {'O', 'N', 'N', 'X', 'D', 'P', 'L', 'G'}, \
      .struct_size = sizeof(onnxd_header), \
      .abi_major = ONNXD_ABI_MAJOR, \
      .abi_minor = ONNXD_ABI_MINOR, \
      .abi_tag = ONNXD_TEXT(ONNXD_ABI_TAG), \
      .id = ONNXD_TEXT(ID), \
      .version = ONNXD_TEXT(VERSION), \
      .descriptor = ONNXD_TEXT(DESCRIPTOR), \
      .entry = og_entry, \
  }

#endif
