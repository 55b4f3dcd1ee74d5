// Reads and writes headers with the structure code of the npm package ibmmq (argv[2]), which needs no MQ library.
// One line of JSON comes in: headers to read, in hexadecimal, and fields to write; one line goes out.
const { MQDLH, MQRFH2 } = require(process.argv[2]);

const read = {
  MQDLH: (data) => MQDLH.getHeader(data),
  MQRFH2: (data) => {
    const header = MQRFH2.getHeader(data);
    return { ...header, folders: MQRFH2.getAllProperties(header, data) };
  },
};

const write = {
  MQDLH: (fields) => Object.assign(new MQDLH(), fields).getBuffer(),
  MQRFH2: (fields) => Object.assign(new MQRFH2(), fields).getBuffer(),
};

const asked = JSON.parse(require("fs").readFileSync(0, "utf8"));
console.log(JSON.stringify(asked.map(([what, kind, value]) =>
  what === "read" ? read[kind](Buffer.from(value, "hex")) : write[kind](value).toString("hex"))));
