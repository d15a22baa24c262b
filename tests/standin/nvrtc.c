/* nvrtc.c: a compiler for PARC_NVRTC that returns empty images. Tests that run
 * kernels on the host compile them with the host's compiler and need no CUDA
 * toolkit. Other tests check the messages of the real NVRTC. */
#include <stddef.h>
#include <string.h>

typedef struct Program *Program;

const char *nvrtcGetErrorString(int result);
int nvrtcVersion(int *major, int *minor);
int nvrtcGetNumSupportedArchs(int *n);
int nvrtcGetSupportedArchs(int *arch);
int nvrtcCreateProgram(Program *p, const char *text, const char *name, int n,
                       const char *const *header,
                       const char *const *header_name);
int nvrtcCompileProgram(Program p, int n, const char *const *option);
int nvrtcGetProgramLogSize(Program p, size_t *n);
int nvrtcGetProgramLog(Program p, char *text);
int nvrtcGetCUBINSize(Program p, size_t *n);
int nvrtcGetCUBIN(Program p, char *data);
int nvrtcGetPTXSize(Program p, size_t *n);
int nvrtcGetPTX(Program p, char *text);

static const int archs[] = {75, 80, 86, 87, 89, 90, 100, 103, 120};
/* What the compiler of CUDA 13.0 writes first: the file format of a cubin is
 * version 8. */
static const char cubin[16] = "\177ELF\2\1\1\101\10";
static const char ptx[] = "//\n.version 9.0\n";
static char nothing;

const char *nvrtcGetErrorString(int result)
{
    return result ? "an error" : "no error";
}

int nvrtcVersion(int *major, int *minor)
{
    *major = 13;
    *minor = 0;
    return 0;
}

int nvrtcGetNumSupportedArchs(int *n)
{
    *n = sizeof archs / sizeof *archs;
    return 0;
}

int nvrtcGetSupportedArchs(int *arch)
{
    memcpy(arch, archs, sizeof archs);
    return 0;
}

int nvrtcCreateProgram(Program *p, const char *text, const char *name, int n,
                       const char *const *header,
                       const char *const *header_name)
{
    (void)name, (void)header, (void)header_name;
    *p = (Program)(void *)&nothing;
    return text && *text && n >= 0 ? 0 : 3;
}

int nvrtcCompileProgram(Program p, int n, const char *const *option)
{
    (void)p, (void)n, (void)option;
    return 0;
}

int nvrtcGetProgramLogSize(Program p, size_t *n)
{
    (void)p;
    *n = 1;
    return 0;
}

int nvrtcGetProgramLog(Program p, char *text)
{
    (void)p;
    *text = 0;
    return 0;
}

int nvrtcGetCUBINSize(Program p, size_t *n)
{
    (void)p;
    *n = sizeof cubin;
    return 0;
}

int nvrtcGetCUBIN(Program p, char *data)
{
    (void)p;
    memcpy(data, cubin, sizeof cubin);
    return 0;
}

int nvrtcGetPTXSize(Program p, size_t *n)
{
    (void)p;
    *n = sizeof ptx;
    return 0;
}

int nvrtcGetPTX(Program p, char *text)
{
    (void)p;
    memcpy(text, ptx, sizeof ptx);
    return 0;
}
