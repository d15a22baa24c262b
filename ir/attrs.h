/* attrs.h: the attributes of ops. attrs.def is the table of their names and
 * types, ops.def lists the names that each op has.
 *
 *   %s = sum{dims=[1], keep=false} %x        attr_dims(op)->v[0] is 1
 *                                            set_attr_keep(op, true)
 */
#ifndef PARC_IR_ATTRS_H
#define PARC_IR_ATTRS_H

#include "ir/type.h"

typedef struct Op Op;

/* An attribute, ATTR_dims. */
typedef enum AttrName {
    ATTR_none,
#define ATTR(type, name) ATTR_##name,
#include "ir/attrs.def"
#undef ATTR
} AttrName;
typedef enum AttrType {
    ATTR_TYPE_INT,
    ATTR_TYPE_DIM,
    ATTR_TYPE_BOOL,
    ATTR_TYPE_FLOAT,
    ATTR_TYPE_DTYPE,
    ATTR_TYPE_TEXT,
    ATTR_TYPE_LIST,
    ATTR_TYPE_AXES,
    ATTR_TYPE_PARAM,
    ATTR_TYPE_PORT,
    ATTR_TYPE_OP,
} AttrType;
enum { MAX_ATTRS = 10 }; /* of an op */
const char *attr_text(AttrName name); /* "dims" */
AttrType attr_type_of(AttrName name);

/* An attribute; ops.def has each op's attributes, attrs.def their types. */
enum { MAX_LIST = MAX_AXES }; /* `styles` has one for each axis, others have
                              * one for each dim */
typedef struct AttrList {
    int n;
    int64_t v[MAX_LIST];
} AttrList;
_Static_assert((int)MAX_LIST >= (int)MAX_DIMS, "a list has one for each dim");
/* An input or output of a module; printed in0, out1. */
typedef struct Port {
    bool input;
    int index;
} Port;
static inline bool port_equal(Port a, Port b)
{
    return a.input == b.input && a.index == b.index;
}
typedef union Attr {
    int64_t i;     /* integers, bools, a set of mesh axes as a bit mask, DType,
                      index into Program.param */
    double f;
    const char *s; /* NULL: none */
    AttrList l;    /* of integers */
    Port port;     /* of a boundary */
    Op *o;         /* an op with results, or NULL */
} Attr;
/* Whether two attributes of the type are equal; a text of NULL equals "". */
bool attr_equal(AttrType type, const Attr *x, const Attr *y);

/* By type: what the getter returns, what the setter takes, the operator between
 * them, the field of Attr. */
#define ATTR_INT int64_t, int64_t, , i
#define ATTR_DIM int, int, , i
#define ATTR_BOOL bool, bool, , i
#define ATTR_FLOAT double, double, , f
#define ATTR_DTYPE DType, DType, , i
#define ATTR_TEXT const char *, const char *, , s
#define ATTR_LIST const AttrList *, AttrList, &, l
#define ATTR_AXES uint32_t, uint32_t, , i
#define ATTR_PARAM int, int, , i
#define ATTR_PORT Port, Port, , port
#define ATTR_OP Op *, Op *, , o
/* Passes a row of attrs.def with these to a macro. */
#define ATTR_APPLY(...) ATTR_APPLY_ALL(__VA_ARGS__)
#define ATTR_APPLY_ALL(macro, ...) macro(__VA_ARGS__)

/* attr_axes(op), set_attr_axes(op, axes), and so for each name of attrs.def;
 * bug() if the op does not have the attribute. */
#define ATTR_DECLARE(get, set, address, field, name)                           \
    get attr_##name(const Op *op);                                             \
    void set_attr_##name(Op *op, set value);
#define ATTR(type, name) ATTR_APPLY(ATTR_DECLARE, ATTR_##type, name)
#include "ir/attrs.def"
#undef ATTR

#endif
