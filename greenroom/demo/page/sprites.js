// Pictures that are drawn once, so that a frame only copies them.

export const COLORS = [
  "#5eead4", "#f472b6", "#facc15", "#60a5fa", "#fb923c", "#a78bfa", "#4ade80", "#f87171",
];

function canvasOf(width, height) {
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(1, Math.ceil(width));
  canvas.height = Math.max(1, Math.ceil(height));
  return canvas;
}

/** Return a soft disc that fades to nothing. */
export function glow(color, radius) {
  const canvas = canvasOf(radius * 2, radius * 2);
  const context = canvas.getContext("2d");
  const fade = context.createRadialGradient(radius, radius, 0, radius, radius, radius);
  fade.addColorStop(0, "#ffffff");
  fade.addColorStop(0.25, color);
  fade.addColorStop(1, `${color}00`);
  context.fillStyle = fade;
  context.fillRect(0, 0, radius * 2, radius * 2);
  return canvas;
}

/** Return a ship whose nose points to the right, `radius` pixels from its middle. */
export function ship(color, radius) {
  const size = radius * 3;
  const canvas = canvasOf(size, size);
  const context = canvas.getContext("2d");
  context.translate(canvas.width / 2, canvas.height / 2);
  context.scale(radius, radius);
  context.shadowColor = color;
  context.shadowBlur = radius * 0.5;
  context.lineJoin = "round";
  context.lineWidth = 0.14;
  context.strokeStyle = color;
  context.fillStyle = "#0b1026";
  context.beginPath();
  for (const [x, y] of [[1, 0], [-0.75, 0.78], [-0.42, 0], [-0.75, -0.78]]) context.lineTo(x, y);
  context.closePath();
  context.fill();
  context.stroke();
  context.shadowBlur = 0;
  context.fillStyle = color;
  context.beginPath();
  context.ellipse(0.12, 0, 0.3, 0.17, 0, 0, 2 * Math.PI);
  context.fill();
  return canvas;
}

export function ring(color, radius) {
  const canvas = canvasOf(radius * 2.4, radius * 2.4);
  const context = canvas.getContext("2d");
  context.translate(canvas.width / 2, canvas.height / 2);
  context.strokeStyle = color;
  context.lineWidth = radius * 0.08;
  context.setLineDash([radius * 0.3, radius * 0.2]);
  context.beginPath();
  context.arc(0, 0, radius, 0, 2 * Math.PI);
  context.stroke();
  return canvas;
}

/** Return a star with five points. */
export function star(radius) {
  const canvas = canvasOf(radius * 4, radius * 4);
  const context = canvas.getContext("2d");
  context.translate(canvas.width / 2, canvas.height / 2);
  context.shadowColor = "#fde68a";
  context.shadowBlur = radius;
  context.fillStyle = "#fde68a";
  context.beginPath();
  for (let point = 0; point < 10; point++) {
    const length = point % 2 === 0 ? radius : radius * 0.45;
    const angle = (point * Math.PI) / 5 - Math.PI / 2;
    context.lineTo(Math.cos(angle) * length, Math.sin(angle) * length);
  }
  context.fill();
  return canvas;
}

export function label(text, color, pixels) {
  const font = `600 ${pixels}px system-ui, sans-serif`;
  const measuring = canvasOf(1, 1).getContext("2d");
  measuring.font = font;
  const canvas = canvasOf(measuring.measureText(text).width + 6, pixels * 1.5);
  const context = canvas.getContext("2d");
  context.font = font;
  context.textBaseline = "middle";
  context.shadowColor = "#000";
  context.shadowBlur = 4;
  context.fillStyle = color;
  context.fillText(text, 3, canvas.height / 2);
  return canvas;
}

/** Return the sky behind the arena, which is the same everywhere: a tile of small stars. */
export function sky(width, height, seed) {
  const canvas = canvasOf(width, height);
  const context = canvas.getContext("2d", { alpha: false });
  const fade = context.createRadialGradient(
    width * 0.5, height * 0.4, 0, width * 0.5, height * 0.4, Math.max(width, height) * 0.75,
  );
  fade.addColorStop(0, "#1a1f4a");
  fade.addColorStop(0.55, "#0d1130");
  fade.addColorStop(1, "#070920");
  context.fillStyle = fade;
  context.fillRect(0, 0, width, height);
  let chance = seed;
  const next = () => (chance = (chance * 16807) % 2147483647) / 2147483647;
  for (let count = (width * height) / 2200; count > 0; count--) {
    const size = 0.4 + next() ** 3 * 1.8;
    context.globalAlpha = 0.25 + next() * 0.6;
    context.fillStyle = next() < 0.15 ? "#93c5fd" : "#e2e8f0";
    context.beginPath();
    context.arc(next() * width, next() * height, size, 0, 2 * Math.PI);
    context.fill();
  }
  return canvas;
}
