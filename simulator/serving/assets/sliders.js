// Logarithmic sliders: places 0 to 1000 and values in SI, and values as text with their unit.

const PLACES = 1000;
const BITS = [[1e12, "Tbit/s"], [1e9, "Gbit/s"], [1e6, "Mbit/s"], [1e3, "kbit/s"]];

const round = (value, digits) => Number(value.toPrecision(digits));

export function valueAt(slider) {
  const { least, most } = slider.dataset;
  return least * (most / least) ** (slider.value / PLACES);
}

export function textAt(slider) {
  const value = valueAt(slider);
  if (slider.dataset.unit === "count") return String(Math.round(value));
  if (slider.dataset.unit === "share") return String(round(value, 2));
  const bits = 8 * value;
  const [size, unit] = BITS.find(([size]) => bits >= size) ?? [1, "bit/s"];
  return `${round(bits / size, 3)} ${unit}`;
}

export function moveTo(slider, value) {
  const { least, most } = slider.dataset;
  const place = PLACES * Math.log(value / least) / Math.log(most / least);
  slider.value = Math.min(PLACES, Math.max(0, Math.round(place)));
}
