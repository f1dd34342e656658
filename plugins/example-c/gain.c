/* A front-end in C: reads gain files, one number that a vector is multiplied with. Build it with
 *
 *     cc -std=c11 -shared -fPIC -O2 -I ../../core/plugin-abi -o libgain.so gain.c
 */
#include "onnxd_graph.h"

static onnxd_status create(onnxd_str kind, onnxd_str params, void **inst, onnxd_err *err) {
  static int instance;
  (void)params;
  if (!og_is(kind, "frontend/gain")) return og_fail(err, ONNXD_INVALID, "this plugin has the front-end `gain` only");
  *inst = &instance;
  return ONNXD_OK;
}

/* The number that a file holds; 0 if it holds none. */
static int number(onnxd_str file, float *value) {
  char text[64];
  if (file.len == 0 || file.len >= sizeof text) return 0;
  memcpy(text, file.ptr, file.len);
  text[file.len] = 0;
  char *end;
  *value = strtof(text, &end);
  return end != text && *(end + strspn(end, " \r\n")) == 0;
}

static onnxd_status probe(void *inst, const onnxd_job *job, onnxd_err *err) {
  (void)inst;
  onnxd_str file;
  float gain;
  onnxd_status status = og_network(job, &file);
  if (status != ONNXD_OK) return og_fail(err, status, "the network cannot be read");
  if (number(file, &gain)) return og_probed(job, 2, "the file holds one number");
  return og_probed(job, 1, "the file's name ends in .gain");
}

static onnxd_status run(void *inst, const onnxd_job *job, onnxd_err *err) {
  (void)inst;
  static const int64_t any[] = {-1};
  onnxd_str file;
  float gain;
  onnxd_status status = og_network(job, &file);
  if (status != ONNXD_OK) return og_fail(err, status, "the network cannot be read");
  if (!number(file, &gain)) return og_fail(err, ONNXD_INVALID, "the file does not hold one number");
  og *g = og_new("gain", 17);
  og_add_value(g, OG_GRAPH_INPUT, "x", OG_FLOAT, any, 1);
  status = og_add_tensor(g, job, "gain", OG_FLOAT, NULL, 0, &gain, sizeof gain);
  og_add_node(g, "Mul", (const char *[]){"x", "gain", NULL}, (const char *[]){"y", NULL});
  og_add_value(g, OG_GRAPH_OUTPUT, "y", OG_FLOAT, any, 1);
  onnxd_str model = og_encoded(g);
  if (status == ONNXD_OK) status = model.ptr ? og_host->graph_put(job, model) : ONNXD_OUT_OF_MEMORY;
  if (status == ONNXD_OK) status = og_report(g, job, ONNXD_ARTIFACT_IMPORT_LOG, og_msg_new(g));
  og_close(g);
  return status == ONNXD_OK ? status : og_fail(err, status, "the host refused the result");
}

static const void *extension(onnxd_str name) {
  static const onnxd_probe_extension probes = {sizeof probes, 0, probe};
  return og_is(name, ONNXD_EXTENSION_PROBE) ? &probes : NULL;
}

OG_EXPORT("org.onnxd.example-c-gain", "0.1.0",
          "summary = 'A front-end in C'\n"
          "licence = 'MIT OR Apache-2.0'\n"
          "[[components]]\n"
          "kind = 'frontend'\n"
          "id = 'gain'\n"
          "summary = 'One factor for a vector'\n"
          "globs = ['*.gain']\n",
          create, run, extension);
