/* Buffered streams: what the program called, and what of it reached the kernel.
 *
 * Every stdio call is noted. A recorder has one row for each that reached the kernel; that row's
 * `calls` says how many calls on the stream it stands for, so that the sum over a stream is the
 * number of calls noted here. Streams differ by file name, and each call is made a prime number of
 * times.
 */
#include "witness.h"

static char block[8192];
static volatile size_t some = 1021;

static FILE *stream(const char *name, const char *mode) {
    FILE *f = DO_AS("fopen", name, ANY, ANY, fopen(in(name), mode), r ? fileno(r) : -1);
    MUST(f);
    return f;
}
static void shut(FILE *f, const char *name) { DO("fclose", name, ANY, ANY, fclose(f)); }

int main(int argc, char **argv) {
    MUST(argc == 2);
    work = argv[1];
    memset(block, 'x', sizeof block);
    for (int i = 96; i < 8192; i += 97) block[i] = '\n';
    char line[512], *grown = NULL;
    size_t room = 0;

    FILE *f = stream("fwrite", "w");
    TIMES DO("fwrite", "fwrite", ANY, 1021, fwrite(block, 1, some, f));
    shut(f, "fwrite");
    f = stream("fwrite_large", "w"); /* larger than the buffer: straight to the kernel */
    TIMES DO("fwrite", "fwrite_large", ANY, 8192, fwrite(block, 1, 8192, f));
    shut(f, "fwrite_large");
    f = stream("fputs", "w");
    TIMES DO("fputs", "fputs", ANY, ANY, fputs("twenty-nine bytes of a line.\n", f));
    shut(f, "fputs");
    f = stream("fprintf", "w");
    TIMES DO("fprintf", "fprintf", ANY, ANY, fprintf(f, "%d %s\n", left_, "printed"));
    shut(f, "fprintf");
    f = stream("fputc", "w");
    TIMES DO("fputc", "fputc", ANY, ANY, fputc('c', f));
    TIMES DO("putc", "fputc", ANY, ANY, putc('d', f));
    shut(f, "fputc");
    f = stream("fflush", "w");
    TIMES {
        DO("fputs", "fflush", ANY, ANY, fputs("a line to be flushed\n", f));
        DO("fflush", "fflush", ANY, ANY, fflush(f));
    }
    shut(f, "fflush");
    f = stream("unbuffered", "w");
    setvbuf(f, NULL, _IONBF, 0);
    TIMES DO("fputs", "unbuffered", ANY, ANY, fputs("unbuffered\n", f));
    shut(f, "unbuffered");
    f = stream("lines", "w");
    setvbuf(f, NULL, _IOLBF, 0);
    TIMES DO("fputs", "lines", ANY, ANY, fputs("line-buffered\n", f));
    shut(f, "lines");
    f = stream("fseek", "w+");
    TIMES {
        DO("fwrite", "fseek", ANY, 1021, fwrite(block, 1, some, f));
        DO("fseek", "fseek", ANY, ANY, fseek(f, 100, SEEK_SET));
    }
    TIMES DO("fseeko", "fseek", ANY, ANY, fseeko(f, 10000, SEEK_SET));
    TIMES DO("rewind", "fseek", ANY, ANY, (rewind(f), 0));
    shut(f, "fseek");

    f = stream("fwrite_large", "r");
    TIMES DO("fread", "fwrite_large", ANY, 1021, fread(block, 1, some, f));
    TIMES DO("fgets", "fwrite_large", ANY, ANY, fgets(line, (int)some % 500, f) != NULL);
    TIMES DO("getline", "fwrite_large", ANY, ANY, getline(&grown, &room, f));
    TIMES DO("getc", "fwrite_large", ANY, ANY, getc(f));
    TIMES DO("fgetc", "fwrite_large", ANY, ANY, fgetc(f));
    shut(f, "fwrite_large");
    int got;
    f = stream("fprintf", "r");
    char word[32];
    while (DO("fscanf", "fprintf", ANY, ANY, fscanf(f, "%d %31s", &got, word)) == 2) continue;
    shut(f, "fprintf");
    free(grown);
    return 0;
}
