/* profiler.c: a profiler's NVTX injection library, written against NVTX's own
 * header: it requests the table of functions and writes each range to the file
 * PROFILE, indented by its depth. */
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <stdlib.h>

static FILE *profile;
static int depth;

static int push(const char *name)
{
    fprintf(profile, "%*s%s\n", depth * 2, "", name);
    fflush(profile);
    return depth++;
}

static int pop(void)
{
    return --depth;
}

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t tables);
int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t tables)
{
    const NvtxExportTableCallbacks *c = tables(NVTX_ETID_CALLBACKS);
    const NvtxExportTableVersionInfo *v = tables(NVTX_ETID_VERSIONINFO);
    NvtxFunctionTable table = NULL;
    unsigned int n = 0;
    if (!c || c->struct_size < sizeof *c || !v || v->struct_size < sizeof *v ||
        v->version < 2 ||
        !c->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &table, &n) ||
        n < NVTX_CBID_CORE_SIZE || c->GetModuleFunctionTable(99, NULL, NULL))
        return 0;
    v->SetInjectionNvtxVersion(3);
    profile = fopen(getenv("PROFILE"), "w");
    *table[NVTX_CBID_CORE_RangePushA] = (NvtxFunctionPointer)push;
    *table[NVTX_CBID_CORE_RangePop] = (NvtxFunctionPointer)pop;
    return profile != NULL;
}
