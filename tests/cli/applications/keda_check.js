// Prints what the schema of KEDA's ScaledObject says of the JSON document on stdin. The other packages are not needed here.
const Module = require("module");
const load = Module._load;
Module._load = function (name, ...rest) {
  if (name === "@kubernetes-models/validate") return { formats: new Proxy({}, { get: () => ({ validate: () => true }) }) };
  if (name.startsWith("@kubernetes-models/apimachinery")) return { validate: () => true };
  return load.call(this, name, ...rest);
};
const { validate } = require(process.argv[2] + "/_schemas/KedaShV1alpha1ScaledObject.js");
validate(JSON.parse(require("fs").readFileSync(0, "utf8")));
console.log((validate.errors || []).map((each) => each.instancePath + " " + each.keyword).join("\n"));
