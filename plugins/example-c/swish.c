/* An operator for all front-ends, in C: the pass lowers `my::swish(x, beta=1)` to x * sigmoid(beta * x). Build it with
 *
 *     cc -std=c11 -shared -fPIC -O2 -I ../../core/plugin-abi -o libswish.so swish.c
 */
#include "onnxd_graph.h"

static onnxd_status create(onnxd_str kind, onnxd_str params, void **inst, onnxd_err *err) {
  static int instance;
  if (!og_is(kind, "pass") || !og_names(params, "swish"))
    return og_fail(err, ONNXD_INVALID, "this plugin has the pass `swish` only");
  *inst = &instance;
  return ONNXD_OK;
}

static onnxd_status lower(og *g, const onnxd_job *job, size_t at, onnxd_err *err) {
  og_msg *node = og_node(g, at);
  onnxd_str out = og_output(node, 0);
  const char *x = og_name(g, og_input(node, 0), ""), *y = og_name(g, out, "");
  const char *beta = og_name(g, out, "_beta"), *scaled = og_name(g, out, "_scaled"), *gate = og_name(g, out, "_gate");
  if (!x || !y || !beta || !scaled || !gate) return ONNXD_OUT_OF_MEMORY;
  og_msg *given = og_attr(g, node, "argument_2");
  if (given && !og_get(given, OG_ATTR_F, 0))
    return og_fail(err, ONNXD_INVALID, og_name(g, out, ": `beta` of my::swish must be a number"));
  float value = og_attr_float(g, node, "argument_2", 1);
  og_stand_in(g, at, "Mul", (const char *[]){x, beta, NULL}, (const char *[]){scaled, NULL});
  og_stand_in(g, at + 1, "Sigmoid", (const char *[]){scaled, NULL}, (const char *[]){gate, NULL});
  og_stand_in(g, at + 2, "Mul", (const char *[]){x, gate, NULL}, (const char *[]){y, NULL});
  og_remove_node(g, at + 3);
  return og_add_tensor(g, job, beta, OG_FLOAT, NULL, 0, &value, sizeof value);
}

static onnxd_status run(void *inst, const onnxd_job *job, onnxd_err *err) {
  (void)inst;
  onnxd_str model;
  onnxd_status status = og_host->graph_get(job, &model);
  if (status != ONNXD_OK) return og_fail(err, status, "no graph");
  og *g = og_open(model);
  if (g == NULL) return og_fail(err, ONNXD_INVALID, "the graph is not an encoded model");
  int64_t rewrites = 0;
  for (size_t i = 0; status == ONNXD_OK && i < og_nodes(g); i++) {
    if (!og_is(og_domain(og_node(g, i)), "my") || !og_is(og_op(og_node(g, i)), "swish")) continue;
    status = lower(g, job, i, err);
    rewrites++;
  }
  if (status == ONNXD_OK) status = og_passed(g, job, "swish", rewrites);
  og_close(g);
  return status;
}

OG_EXPORT("org.onnxd.example-c-swish", "0.1.0",
          "summary = 'An operator in C'\n"
          "licence = 'MIT OR Apache-2.0'\n"
          "[[components]]\n"
          "kind = 'pass'\n"
          "id = 'swish'\n"
          "summary = 'Lowers my::swish'\n"
          "lowers = ['my::swish']\n",
          create, run, og_no_extension);
