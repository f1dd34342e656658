/* Operators in C that do not become several of ONNX's: `my::hard_shrink` becomes one, `my::gated` a function, and
 * `my::warp` stays in a domain of its own. `swish.c` shows a formula of several. Build it with
 *
 *     cc -std=c11 -shared -fPIC -O2 -I ../../core/plugin-abi -o libforms.so forms.c
 */
#include "onnxd_graph.h"

static onnxd_status create(onnxd_str kind, onnxd_str params, void **inst, onnxd_err *err) {
  static int instance;
  if (!og_is(kind, "pass") || !og_names(params, "forms"))
    return og_fail(err, ONNXD_INVALID, "this plugin has the pass `forms` only");
  *inst = &instance;
  return ONNXD_OK;
}

/* x * sigmoid(x), which the model has once. */
static void add_gated(og *g) {
  og_msg *gated = og_add_function(g, "com.example", "Gated", (const char *[]){"x", NULL}, (const char *[]){"y", NULL});
  og_function_node(g, gated, "Sigmoid", (const char *[]){"x", NULL}, (const char *[]){"gate", NULL});
  og_function_node(g, gated, "Mul", (const char *[]){"x", "gate", NULL}, (const char *[]){"y", NULL});
}

/* Puts a node in place of node `at`; its only input is the first one. */
static og_msg *instead(og *g, size_t at, const char *op) {
  og_msg *node = og_node(g, at);
  const char *x = og_name(g, og_input(node, 0), ""), *y = og_name(g, og_output(node, 0), "");
  if (!x || !y) return NULL;
  return og_stand_in(g, at, op, (const char *[]){x, NULL}, (const char *[]){y, NULL});
}

/* Lowers node `at`, if it is one of ours: 1 if it is, -1 if memory ran out. */
static int lower(og *g, size_t at, int *has_gated) {
  og_msg *node = og_node(g, at), *new_node;
  if (!og_is(og_domain(node), "my")) return 0;
  if (og_is(og_op(node), "hard_shrink")) {
    new_node = instead(g, at, "Shrink");
    og_set_float(g, new_node, "lambd", og_attr_float(g, node, "argument_2", 0.5f));
  } else if (og_is(og_op(node), "gated")) {
    if (!*has_gated) add_gated(g);
    *has_gated = 1;
    new_node = instead(g, at, "Gated");
    og_set_domain(g, new_node, "com.example");
  } else if (og_is(og_op(node), "warp")) {
    new_node = instead(g, at, "Warp");
    og_set_domain(g, new_node, "com.example");
    og_msg *by = og_attr(g, node, "argument_2");
    og_field *name = og_get(by, OG_ATTR_NAME, 0);
    if (name) name->bytes = og_text("by");
    og_add_bytes(g, new_node, OG_NODE_ATTRIBUTE, og_message(g, by));
  } else {
    return 0;
  }
  if (!new_node) return -1;
  og_remove_node(g, at + 1);
  return 1;
}

static onnxd_status run(void *inst, const onnxd_job *job, onnxd_err *err) {
  (void)inst;
  onnxd_str model;
  onnxd_status status = og_host->graph_get(job, &model);
  if (status != ONNXD_OK) return og_fail(err, status, "no graph");
  og *g = og_open(model);
  if (g == NULL) return og_fail(err, ONNXD_INVALID, "the graph is not an encoded model");
  int64_t rewrites = 0;
  int has_gated = 0;
  for (size_t i = 0; status == ONNXD_OK && i < og_nodes(g); i++) {
    int done = lower(g, i, &has_gated);
    if (done < 0) status = ONNXD_OUT_OF_MEMORY;
    rewrites += done > 0;
  }
  if (status == ONNXD_OK) status = og_passed(g, job, "forms", rewrites);
  og_close(g);
  return status;
}

OG_EXPORT("org.onnxd.example-c-forms", "0.1.0",
          "summary = 'Operators in C'\n"
          "licence = 'MIT OR Apache-2.0'\n"
          "[[components]]\n"
          "kind = 'pass'\n"
          "id = 'forms'\n"
          "summary = 'Lowers operators of my'\n"
          "lowers = ['my::hard_shrink', 'my::gated', 'my::warp']\n",
          create, run, og_no_extension);
