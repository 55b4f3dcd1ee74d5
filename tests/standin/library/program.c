/* A program in C for the tests of the development kit: each mode prints what it got back. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <cmqc.h>
#include <cmqxc.h>
#include <cmqcfc.h>
#include <cmqec.h>
#include <cmqbc.h>
#include <cmqstrc.h>

static MQLONG cc, rc;
static MQHCONN hcon;
static MQHOBJ hobj;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t came = PTHREAD_COND_INITIALIZER;
static int is_there;
static volatile int has_noted;

static void say(const char *call) { printf("%s %s\n", call, MQRC_STR(rc)); }

static void put(const char *body, MQLONG options) {
    MQMD md = {MQMD_DEFAULT};
    MQPMO pmo = {MQPMO_DEFAULT};
    memcpy(md.Format, MQFMT_STRING, MQ_FORMAT_LENGTH);
    pmo.Options = options;
    MQPUT(hcon, hobj, &md, &pmo, (MQLONG)strlen(body), (PMQVOID)body, &cc, &rc);
    say("MQPUT");
}

static void *get(void *unused) {
    MQMD md = {MQMD_DEFAULT};
    MQGMO gmo = {MQGMO_DEFAULT};
    MQCHAR buffer[100] = {0};
    MQLONG length = 0;
    (void)unused;
    gmo.Options = MQGMO_NO_SYNCPOINT | MQGMO_NO_WAIT;
    MQGET(hcon, hobj, &md, &gmo, sizeof buffer, buffer, &length, &cc, &rc);
    say("MQGET");
    if (cc != MQCC_FAILED)
        printf("%d %s %.6s\n", length, buffer, md.Format);
    return NULL;
}

static void consume(MQHCONN h, MQMD *md, MQGMO *gmo, void *body, MQCBC *context) {
    (void)h, (void)gmo;
    if (context->CallType != MQCBCT_MSG_REMOVED)
        return;
    if (!has_noted)
        printf("called before the note\n");
    printf("called with %.*s %.6s\n", context->DataLength, (char *)body, md->Format);
    pthread_mutex_lock(&lock);
    is_there = 1;
    pthread_cond_signal(&came);
    pthread_mutex_unlock(&lock);
}

/* Uses 10 ms of processor time, and then notes that MQCTL has returned. */
static void note(void) {
    struct timespec now, begin;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
    do
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    while ((now.tv_sec - begin.tv_sec) * 1000000000L + now.tv_nsec - begin.tv_nsec < 10000000L);
    has_noted = 1;
}

static void call_back(void) {
    MQCBD cbd = {MQCBD_DEFAULT};
    MQMD md = {MQMD_DEFAULT};
    MQGMO gmo = {MQGMO_DEFAULT};
    MQCTLO ctlo = {MQCTLO_DEFAULT};
    cbd.CallbackFunction = (MQPTR)consume;
    gmo.Options = MQGMO_NO_SYNCPOINT;
    MQCB(hcon, MQOP_REGISTER, &cbd, hobj, &md, &gmo, &cc, &rc);
    say("MQCB");
    MQCTL(hcon, MQOP_START, &ctlo, &cc, &rc);
    note();
    say("MQCTL");
    pthread_mutex_lock(&lock);
    while (!is_there)
        pthread_cond_wait(&came, &lock);
    pthread_mutex_unlock(&lock);
    MQCTL(hcon, MQOP_STOP, &ctlo, &cc, &rc);
    say("MQCTL");
}

static void buffers(void) {
    MQCMHO cmho = {MQCMHO_DEFAULT};
    MQSMPO smpo = {MQSMPO_DEFAULT};
    MQIMPO impo = {MQIMPO_DEFAULT};
    MQPD pd = {MQPD_DEFAULT};
    MQBMHO bmho = {MQBMHO_DEFAULT};
    MQMHBO mhbo = {MQMHBO_DEFAULT};
    MQMD md = {MQMD_DEFAULT};
    MQCHARV colour = {"colour", 0, 0, 6, MQCCSI_APPL}, all = {"%", 0, 0, 1, MQCCSI_APPL};
    MQHMSG from, to;
    MQLONG length = 0, type = MQTYPE_STRING;
    char data[500], text[20] = "";
    MQCRTMH(hcon, &cmho, &from, &cc, &rc);
    MQCRTMH(hcon, &cmho, &to, &cc, &rc);
    MQSETMP(hcon, from, &smpo, &colour, &pd, type, 4, "blue", &cc, &rc);
    memcpy(md.Format, MQFMT_STRING, MQ_FORMAT_LENGTH);
    MQMHBUF(hcon, from, &mhbo, &all, &md, 10, data, &length, &cc, &rc);
    say("MQMHBUF");
    MQMHBUF(hcon, from, &mhbo, &all, &md, sizeof data, data, &length, &cc, &rc);
    say("MQMHBUF");
    memcpy(data + length, "body", 4);
    MQBUFMH(hcon, to, &bmho, &md, length + 4, data, &length, &cc, &rc);
    say("MQBUFMH");
    printf("%.8s %.*s\n", md.Format, (int)length, data);
    MQINQMP(hcon, to, &impo, &colour, &pd, &type, sizeof text, text, &length, &cc, &rc);
    printf("%s %.*s\n", MQRC_STR(rc), (int)length, text);
    MQXCNVC(hcon, MQDCC_FILL_TARGET_BUFFER, 1208, 5, "h\303\244lo", 819, 6, text, &length, &cc, &rc);
    printf("%s %d %02x <%.2s>\n", MQRC_STR(rc), (int)length, (unsigned char)text[1], text + 4);
    MQXCNVC(hcon, MQDCC_TARGET_ENC_NORMAL, 819, 5, "hello", 1200, 5, text, &length, &cc, &rc);
    printf("%s %d %02x%02x\n", MQRC_STR(rc), (int)length, text[2], text[3]);
    MQXCNVC(hcon, 0, 1, 5, "hello", 1200, 5, text, &length, &cc, &rc);
    say("MQXCNVC");
}

static void bags(void) {
    MQHBAG bag = MQHB_UNUSABLE_HBAG;
    mqCreateBag(MQCBO_ADMIN_BAG, &bag, &cc, &rc);
    say("mqCreateBag");
}

static void in_another_thread(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, get, NULL);
    pthread_join(thread, NULL);
}

int main(int argc, char **argv) {
    MQCHAR48 name = "QM1";
    MQCNO cno = {MQCNO_DEFAULT};
    MQCD cd = {MQCD_CLIENT_CONN_DEFAULT};
    MQOD od = {MQOD_DEFAULT};
    const char *mode = argc > 1 ? argv[1] : "";
    cno.Options = strcmp(mode, "alone") ? MQCNO_HANDLE_SHARE_BLOCK : MQCNO_HANDLE_SHARE_NONE;
    strncpy(cd.ChannelName, "TLS.SVRCONN", MQ_CHANNEL_NAME_LENGTH);
    if (!strcmp(mode, "channel")) {
        cno.Version = MQCNO_VERSION_2;
        cno.ClientConnPtr = &cd;
    }
    MQCONNX(name, &cno, &hcon, &cc, &rc);
    say("MQCONNX");
    if (cc == MQCC_FAILED)
        return 1;
    strncpy(od.ObjectName, "Q", MQ_Q_NAME_LENGTH);
    MQOPEN(hcon, &od, MQOO_OUTPUT | MQOO_INPUT_SHARED, &hobj, &cc, &rc);
    say("MQOPEN");
    if (!strcmp(mode, "uncommitted")) {
        put("never committed", MQPMO_SYNCPOINT);
        return 0;
    }
    put("hello", MQPMO_NO_SYNCPOINT);
    if (!strcmp(mode, "callback"))
        call_back();
    else if (!strcmp(mode, "buffers"))
        buffers();
    else if (!strcmp(mode, "bags"))
        bags();
    else if (strcmp(mode, "get"))
        in_another_thread();
    get(NULL);
    MQCLOSE(hcon, &hobj, MQCO_NONE, &cc, &rc);
    MQDISC(&hcon, &cc, &rc);
    say("MQDISC");
    return 0;
}
