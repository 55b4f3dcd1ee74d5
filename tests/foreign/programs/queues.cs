// A program in C# for IBM MQ, by the shared library alone, as .NET calls native code (P/Invoke): it prints each call with its
// completion code, its reason and a value. The program in Perl beside it makes the same calls.
using System;
using System.Runtime.InteropServices;
using System.Text;

static class Queues
{
    const string Library = "libmqm_r.so";
    const int Syncpoint = 2, NoSyncpoint = 4, InputOutputInquire = 2 + 16 + 32, CurrentQDepth = 3;

    [StructLayout(LayoutKind.Sequential, CharSet = CharSet.Ansi)]
    struct MQOD
    {
        [MarshalAs(UnmanagedType.ByValArray, SizeConst = 4)] public byte[] StrucId;
        public int Version, ObjectType;
        [MarshalAs(UnmanagedType.ByValArray, SizeConst = 48)] public byte[] ObjectName;
        [MarshalAs(UnmanagedType.ByValArray, SizeConst = 108)] public byte[] Others;
    }

    [StructLayout(LayoutKind.Sequential, CharSet = CharSet.Ansi)]
    struct MQMD
    {
        [MarshalAs(UnmanagedType.ByValArray, SizeConst = 4)] public byte[] StrucId;
        public int Version, Report, MsgType, Expiry, Feedback, Encoding, CodedCharSetId;
        [MarshalAs(UnmanagedType.ByValArray, SizeConst = 8)] public byte[] Format;
        public int Priority, Persistence;
        [MarshalAs(UnmanagedType.ByValArray, SizeConst = 48)] public byte[] Identifiers;
        public int BackoutCount;
        [MarshalAs(UnmanagedType.ByValArray, SizeConst = 224)] public byte[] Others;
    }

    [StructLayout(LayoutKind.Sequential, CharSet = CharSet.Ansi)]
    struct MQPMO
    {
        [MarshalAs(UnmanagedType.ByValArray, SizeConst = 4)] public byte[] StrucId;
        public int Version, Options, Timeout, Context, Known, Unknown, Invalid;
        [MarshalAs(UnmanagedType.ByValArray, SizeConst = 96)] public byte[] Resolved;
    }

    [StructLayout(LayoutKind.Sequential, CharSet = CharSet.Ansi)]
    struct MQGMO
    {
        [MarshalAs(UnmanagedType.ByValArray, SizeConst = 4)] public byte[] StrucId;
        public int Version, Options, WaitInterval, Signal1, Signal2;
        [MarshalAs(UnmanagedType.ByValArray, SizeConst = 48)] public byte[] Resolved;
    }

    [DllImport(Library)] static extern void MQCONN(byte[] name, out int connection, out int completion, out int reason);
    [DllImport(Library)] static extern void MQDISC(ref int connection, out int completion, out int reason);
    [DllImport(Library)] static extern void MQCMIT(int connection, out int completion, out int reason);
    [DllImport(Library)] static extern void MQBACK(int connection, out int completion, out int reason);
    [DllImport(Library)] static extern void MQCLOSE(int connection, ref int handle, int options, out int completion, out int reason);
    [DllImport(Library)]
    static extern void MQOPEN(int connection, ref MQOD od, int options, out int handle, out int completion, out int reason);
    [DllImport(Library)]
    static extern void MQPUT(
        int connection, int handle, ref MQMD md, ref MQPMO pmo, int length, byte[] body, out int completion, out int reason);
    [DllImport(Library)]
    static extern void MQGET(
        int connection, int handle, ref MQMD md, ref MQGMO gmo, int size, byte[] buffer, out int length, out int completion,
        out int reason);
    [DllImport(Library)]
    static extern void MQINQ(
        int connection, int handle, int count, int[] selectors, int integers, int[] values, int characters, byte[] texts,
        out int completion, out int reason);

    static int connection, queue, completion, reason;

    static byte[] Text(string text, int length)
    {
        var bytes = new byte[length];
        Encoding.ASCII.GetBytes(text).CopyTo(bytes, 0);
        return bytes;
    }

    static void Say(string call, string value = "")
    {
        Console.WriteLine((call + " " + completion + " " + reason + " " + (completion == 2 ? "" : value)).TrimEnd());
    }

    static MQMD Descriptor()
    {
        return new MQMD
        {
            StrucId = Text("MD  ", 4), Version = 1, MsgType = 8, Expiry = -1, Encoding = 546, Format = Text("MQSTR   ", 8),
            Priority = -1, Persistence = 2, Identifiers = new byte[48], Others = new byte[224],
        };
    }

    static int Open(string name)
    {
        int handle;
        var od = new MQOD
        {
            StrucId = Text("OD  ", 4), Version = 1, ObjectType = 1, ObjectName = Text(name, 48), Others = new byte[108],
        };
        MQOPEN(connection, ref od, InputOutputInquire, out handle, out completion, out reason);
        Say("MQOPEN");
        return handle;
    }

    static void Put(string body, int options)
    {
        var md = Descriptor();
        var pmo = new MQPMO
        {
            StrucId = Text("PMO ", 4), Version = 1, Options = options, Timeout = -1, Resolved = new byte[96],
        };
        MQPUT(connection, queue, ref md, ref pmo, body.Length, Text(body, body.Length), out completion, out reason);
        Say("MQPUT");
    }

    static void Get(int options)
    {
        int length;
        var md = Descriptor();
        var gmo = new MQGMO { StrucId = Text("GMO ", 4), Version = 1, Options = options, Resolved = new byte[48] };
        var buffer = new byte[100];
        MQGET(connection, queue, ref md, ref gmo, buffer.Length, buffer, out length, out completion, out reason);
        Say("MQGET", Encoding.ASCII.GetString(buffer, 0, length) + " backed out " + md.BackoutCount);
    }

    static void Depth()
    {
        var values = new int[1];
        MQINQ(connection, queue, 1, new[] { CurrentQDepth }, 1, values, 0, null, out completion, out reason);
        Say("MQINQ", "depth " + values[0]);
    }

    static void Commit()
    {
        MQCMIT(connection, out completion, out reason);
        Say("MQCMIT");
    }

    static void Back()
    {
        MQBACK(connection, out completion, out reason);
        Say("MQBACK");
    }

    static void Main()
    {
        MQCONN(Text("QM1", 48), out connection, out completion, out reason);
        Say("MQCONN");
        Open("NOT.DEFINED");
        queue = Open("DEV.QUEUE.1");
        Put("first", NoSyncpoint);
        Get(NoSyncpoint);
        Get(NoSyncpoint);
        Put("never", Syncpoint);
        Back();
        Depth();
        Put("second", Syncpoint);
        Commit();
        Depth();
        Get(Syncpoint);
        Back();
        Get(Syncpoint);
        Commit();
        Depth();
        MQCLOSE(connection, ref queue, 0, out completion, out reason);
        Say("MQCLOSE");
        MQDISC(ref connection, out completion, out reason);
        Say("MQDISC");
        Commit();
    }
}
