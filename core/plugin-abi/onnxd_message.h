/* onnxd_message.h: protobuf messages for plugins in C; part of onnxd_graph.h.
 *
 * A message is a list of fields. Texts and bytes that come out of one are valid until og_close. */
#ifndef ONNXD_MESSAGE_H
#define ONNXD_MESSAGE_H

#include "onnxd_plugin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __GNUC__
#define OG_API static __attribute__((unused))
#else
#define OG_API static
#endif

enum { OG_VARINT = 0, OG_FIXED64 = 1, OG_BYTES = 2, OG_FIXED32 = 5 };

typedef struct og_msg og_msg;

/* A field of a message: a number, or bytes, which og_sub reads as a message of its own. */
typedef struct og_field {
  uint32_t number, wire;
  uint64_t value;
  onnxd_str bytes;
  og_msg *msg;
} og_field;

struct og_msg {
  og_field *fields;
  size_t count, room;
};

typedef struct og_block {
  struct og_block *next;
} og_block;

typedef struct og {
  og_block *blocks;
  og_msg *model, *graph;
} og;

/* ---- Texts ---- */

OG_API onnxd_str og_text(const char *s) {
  onnxd_str out = {(const uint8_t *)s, strlen(s)};
  return out;
}

OG_API int og_same(onnxd_str a, onnxd_str b) {
  return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

OG_API int og_is(onnxd_str a, const char *b) { return og_same(a, og_text(b)); }

/* ---- Memory and messages ---- */

OG_API void *og_alloc(og *g, size_t size) {
  og_block *block = g ? (og_block *)calloc(1, sizeof(og_block) + 16 + size) : NULL;
  if (!block) return NULL;
  block->next = g->blocks;
  g->blocks = block;
  return (uint8_t *)block + 16;
}

OG_API void og_close(og *g) {
  while (g && g->blocks) {
    og_block *next = g->blocks->next;
    free(g->blocks);
    g->blocks = next;
  }
  free(g);
}

OG_API og_msg *og_msg_new(og *g) { return (og_msg *)og_alloc(g, sizeof(og_msg)); }

/* A new field at the end of a message; fill it in. */
OG_API og_field *og_add(og *g, og_msg *m, uint32_t number, uint32_t wire) {
  if (!m) return NULL;
  if (m->count == m->room) {
    size_t room = m->room ? 2 * m->room : 8;
    og_field *fields = (og_field *)og_alloc(g, room * sizeof(og_field));
    if (!fields) return NULL;
    if (m->count) memcpy(fields, m->fields, m->count * sizeof(og_field));
    m->fields = fields, m->room = room;
  }
  og_field *f = &m->fields[m->count++];
  memset(f, 0, sizeof *f);
  f->number = number, f->wire = wire;
  return f;
}

OG_API int og_varint(onnxd_str *at, uint64_t *value) {
  *value = 0;
  for (int shift = 0; shift < 70 && at->len > 0; shift += 7) {
    uint8_t byte = *at->ptr++;
    at->len--;
    if (shift < 64) *value |= (uint64_t)(byte & 0x7f) << shift;
    if (byte < 0x80) return 1;
  }
  return 0;
}

/* The fields of a message; NULL if the bytes are none. */
OG_API og_msg *og_parse(og *g, onnxd_str at) {
  og_msg *m = og_msg_new(g);
  while (m && at.len > 0) {
    uint64_t key, size = 0;
    if (!og_varint(&at, &key) || key >> 3 == 0 || key >> 3 > UINT32_MAX) return NULL;
    og_field *f = og_add(g, m, (uint32_t)(key >> 3), (uint32_t)(key & 7));
    if (!f) return NULL;
    switch (f->wire) {
      case OG_VARINT:
        if (!og_varint(&at, &f->value)) return NULL;
        continue;
      case OG_FIXED64: size = 8; break;
      case OG_FIXED32: size = 4; break;
      case OG_BYTES:
        if (!og_varint(&at, &size)) return NULL;
        break;
      default: return NULL;
    }
    if (size > at.len) return NULL;
    f->bytes.ptr = at.ptr, f->bytes.len = (size_t)size;
    at.ptr += size, at.len -= (size_t)size;
  }
  return m;
}

/* The message that a field holds. */
OG_API og_msg *og_sub(og *g, og_field *f) {
  if (f && !f->msg && f->wire == OG_BYTES) f->msg = og_parse(g, f->bytes);
  return f ? f->msg : NULL;
}

/* Every field of a number. */
#define OG_EACH(FIELD, MESSAGE, NUMBER) \
  for (og_field *FIELD = (MESSAGE) ? (MESSAGE)->fields : NULL; FIELD && FIELD < (MESSAGE)->fields + (MESSAGE)->count; \
       FIELD++) \
    if (FIELD->number == (uint32_t)(NUMBER))

/* How many fields of this number there are, and the one at `index`, which is valid until the message grows. */
OG_API size_t og_count(const og_msg *m, uint32_t number) {
  size_t n = 0;
  OG_EACH(f, m, number) n++;
  return n;
}

OG_API og_field *og_get(og_msg *m, uint32_t number, size_t index) {
  OG_EACH(f, m, number) if (index-- == 0) return f;
  return NULL;
}

OG_API onnxd_str og_bytes(og_msg *m, uint32_t number, size_t index) {
  og_field *f = og_get(m, number, index);
  onnxd_str none = {NULL, 0};
  return f && f->wire == OG_BYTES ? f->bytes : none;
}

/* Removes a field; those behind it move up. */
OG_API void og_remove(og_msg *m, uint32_t number, size_t index) {
  og_field *f = og_get(m, number, index);
  if (!f) return;
  memmove(f, f + 1, (size_t)(m->fields + m->count - (f + 1)) * sizeof *f);
  m->count--;
}

OG_API void og_add_int(og *g, og_msg *m, uint32_t number, int64_t value) {
  og_field *f = og_add(g, m, number, OG_VARINT);
  if (f) f->value = (uint64_t)value;
}

/* Adds a copy of bytes. */
OG_API void og_add_bytes(og *g, og_msg *m, uint32_t number, onnxd_str bytes) {
  uint8_t *copy = (uint8_t *)og_alloc(g, bytes.len + 1);
  og_field *f = copy ? og_add(g, m, number, OG_BYTES) : NULL;
  if (!f) return;
  if (bytes.len) memcpy(copy, bytes.ptr, bytes.len);
  f->bytes.ptr = copy, f->bytes.len = bytes.len;
}

OG_API og_msg *og_add_msg(og *g, og_msg *m, uint32_t number) {
  og_msg *sub = og_msg_new(g);
  og_field *f = sub ? og_add(g, m, number, OG_BYTES) : NULL;
  if (f) f->msg = sub;
  return f ? sub : NULL;
}

OG_API size_t og_put_varint(uint8_t *out, uint64_t value) {
  size_t n = 0;
  do {
    uint8_t byte = (uint8_t)(value & 0x7f);
    value >>= 7;
    if (out) out[n] = value ? byte | 0x80 : byte;
    n++;
  } while (value);
  return n;
}

/* Writes a message, or with NULL only counts its bytes. */
OG_API size_t og_write(const og_msg *m, uint8_t *out) {
  size_t n = 0;
  for (size_t i = 0; m && i < m->count; i++) {
    const og_field *f = &m->fields[i];
    n += og_put_varint(out ? out + n : NULL, (uint64_t)f->number << 3 | f->wire);
    if (f->wire == OG_VARINT) {
      n += og_put_varint(out ? out + n : NULL, f->value);
      continue;
    }
    size_t len = f->msg ? og_write(f->msg, NULL) : f->bytes.len;
    if (f->wire == OG_BYTES) n += og_put_varint(out ? out + n : NULL, len);
    if (out && f->msg) og_write(f->msg, out + n);
    if (out && !f->msg && len) memcpy(out + n, f->bytes.ptr, len);
    n += len;
  }
  return n;
}

OG_API onnxd_str og_message(og *g, const og_msg *m) {
  onnxd_str out = {NULL, 0};
  uint8_t *bytes = m ? (uint8_t *)og_alloc(g, og_write(m, NULL) + 1) : NULL;
  if (bytes) out.ptr = bytes, out.len = og_write(m, bytes);
  return out;
}

#endif
