/* attrs.c: holds the table of attributes, generated from attrs.def, and reads
 * and sets the attributes of ops. */
#include "ir/attrs.h"

#include <string.h>

#include "base/bug.h"
#include "ir/ir.h"

const char *attr_text(AttrName name)
{
    static const char *const text[] = {
        [ATTR_none] = "",
#define ATTR(type, name) [ATTR_##name] = #name,
#include "ir/attrs.def"
#undef ATTR
    };
    return text[name];
}

AttrType attr_type_of(AttrName name)
{
    static const AttrType types[] = {
#define ATTR(type, name) [ATTR_##name] = ATTR_TYPE_##type,
#include "ir/attrs.def"
#undef ATTR
    };
    return types[name];
}

bool attr_equal(AttrType type, const Attr *x, const Attr *y)
{
    if (type == ATTR_TYPE_TEXT)
        return !strcmp(x->s ? x->s : "", y->s ? y->s : "");
    if (type == ATTR_TYPE_LIST)
        return x->l.n == y->l.n &&
               !memcmp(x->l.v, y->l.v, sizeof *x->l.v * (size_t)x->l.n);
    return type == ATTR_TYPE_PORT ? port_equal(x->port, y->port)
                                  : x->i == y->i;
}

static int find_attr(OpKind kind, AttrName name)
{
    const AttrName *attr = op_info(kind)->attr;
    for (int i = 0; attr[i]; i++)
        if (attr[i] == name)
            return i;
    return -1;
}

bool op_has_attr(OpKind kind, AttrName name)
{
    return find_attr(kind, name) >= 0;
}

int op_attr_index(OpKind kind, AttrName name)
{
    int index = find_attr(kind, name);
    if (index < 0)
        bug("op %s has no attribute %s", op_info(kind)->name, attr_text(name));
    return index;
}

#define DEFINE(get, set, address, field, name)                                 \
    get attr_##name(const Op *op)                                              \
    {                                                                          \
        return address op->attr[op_attr_index(op->kind, ATTR_##name)].field;   \
    }                                                                          \
    void set_attr_##name(Op *op, set value)                                    \
    {                                                                          \
        op->attr[op_attr_index(op->kind, ATTR_##name)].field = value;          \
    }
#define ATTR(type, name) ATTR_APPLY(DEFINE, ATTR_##type, name)
#include "ir/attrs.def"
#undef ATTR
